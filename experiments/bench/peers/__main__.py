import sys

from experiments.bench.peers import main

sys.exit(main(sys.argv[1:]))

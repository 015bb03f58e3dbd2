import sys

from experiments.peers import main

sys.exit(main(sys.argv[1:]))

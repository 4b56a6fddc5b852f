"""The tools of qmgrd: the command line qmctl, the demo and the benchmark."""

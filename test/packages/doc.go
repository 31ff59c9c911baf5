// Package packages tests the release: it makes the packages of the built program, installs them on a machine
// of its own, which systemd has booted, runs a job with a volume, upgrades, removes and purges.
//
// The machine is a process with namespaces and cgroups of its own. Its files are those of this machine with a
// layer above, which ends with it. Of the programs it has those that a machine has after an installation.
package packages

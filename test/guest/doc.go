// Package guest tests what the kernel of the test machine may not have. It boots a user-mode Linux kernel
// (Debian's package user-mode-linux) on the machine's own root, read-only, with the hierarchy of cgroup v2
// alone, and runs tests of other packages in it. The package has no code but tests.
package guest

// Package guest tests features that the kernel of the test machine may lack. It boots a user-mode Linux
// kernel (Debian's package user-mode-linux) on the root of the machine, read-only, with only the hierarchy of
// cgroup v2. It runs tests of other packages in it. The package has only tests.
package guest

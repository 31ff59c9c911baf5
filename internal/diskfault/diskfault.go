// Package diskfault distinguishes errors of a machine from errors of a file. If a disk is full or a file is
// not readable, the file itself is not damaged. It must not be removed. Describe says what fills a disk.
package diskfault

import (
	"errors"
	"slices"
	"syscall"
)

// environment lists the errors that pass without a change of the file.
var environment = []syscall.Errno{
	syscall.ENOSPC,
	syscall.EDQUOT,
	syscall.EROFS,
	syscall.EACCES,
	syscall.EPERM,
	syscall.EMFILE,
	syscall.ENFILE,
	syscall.ENOMEM,
}

// OfMachine reports whether an error has no information about the content of a file.
func OfMachine(err error) bool {
	return slices.ContainsFunc(environment, func(e syscall.Errno) bool {
		return errors.Is(err, e)
	})
}

// NoSpace reports whether the disk is full.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

package files

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

// IsMachineFault reports whether an error has no information about the content of a file.
func IsMachineFault(err error) bool {
	return slices.ContainsFunc(environment, func(e syscall.Errno) bool {
		return errors.Is(err, e)
	})
}

// IsNoSpace reports whether the disk is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

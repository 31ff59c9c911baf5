package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"
)

func TestOfMachine_LooksThroughWrapping(t *testing.T) {
	for _, c := range []struct {
		err           error
		machine, full bool
	}{
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, true, true},
		{fmt.Errorf("x: %w", syscall.EDQUOT), true, true},
		{errors.Join(io.EOF, syscall.EACCES), true, false},
		{syscall.EIO, false, false},
		{fs.ErrNotExist, false, false},
		{nil, false, false},
	} {
		if IsMachineFault(c.err) != c.machine || IsNoSpace(c.err) != c.full {
			t.Errorf("%v: got of the machine %v, full %v; want %v, %v",
				c.err, IsMachineFault(c.err), IsNoSpace(c.err), c.machine, c.full)
		}
	}
}

package auditlog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// makeDir makes a directory of the audit log, with those above it, and checks all of them.
func makeDir(dir string) error {
	there := dir
	for {
		_, err := os.Lstat(there)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		there = filepath.Dir(there)
	}

	// First, so that nothing is made where a link of somebody else leads.
	err := checkOwners(there)
	if err != nil || there == dir {
		return err
	}
	err = os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	return checkOwners(dir)
}

// checkOwners returns an error if somebody else than root and the user of the agent can put another directory
// or a link in the place of one on the path: the lines would go to another file, or over one.
func checkOwners(dir string) error {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}

	for _, path := range []string{filepath.Clean(dir), resolved} {
		for {
			err := checkOwner(path)
			if err != nil {
				return err
			}
			if path == "/" {
				break
			}
			path = filepath.Dir(path)
		}
	}
	return nil
}

func checkOwner(path string) error {
	var is unix.Stat_t
	err := unix.Lstat(path, &is)
	if err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}

	uid := int(is.Uid)
	if uid != 0 && uid != os.Geteuid() {
		return structs.Preconditionf("%s belongs to user %d, who can put another file there: change the owner, or set another path", path, uid)
	}
	isDir := is.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && is.Mode&unix.S_IWOTH != 0 && is.Mode&unix.S_ISVTX == 0 {
		return structs.Preconditionf("everybody may write to the directory %s: take that away with chmod o-w", path)
	}
	return nil
}

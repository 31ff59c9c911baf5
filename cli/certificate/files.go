package certificate

import (
	"errors"
	"os"
	"path/filepath"

	"berth/internal/files"
	"berth/structs"
)

// The modes of new files.
const (
	modeCert = 0o644
	modeKey  = 0o600
)

// newFile is a file to create.
type newFile struct {
	path    string
	mode    os.FileMode // before the umask
	content []byte
}

// createFiles creates all files, or none of them: it overwrites no file, and removes its own after a fault.
// The mode of a file holds from its creation. They are in one directory, and durable when it returns.
func createFiles(list []newFile) (err error) {
	var made []string
	defer func() {
		if err == nil {
			return
		}
		for _, path := range made {
			err = errors.Join(err, os.Remove(path))
		}
	}()

	for _, file := range list {
		f, err := os.OpenFile(file.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, file.mode)
		if errors.Is(err, os.ErrExist) {
			return existing(file.path)
		}
		if err != nil {
			return structs.Invalidf("%w (-dir)", err)
		}
		made = append(made, file.path)
		err = writeAll(f, file.content)
		if err != nil {
			return err
		}
	}

	return files.SyncDurable(filepath.Dir(list[0].path))
}

// existing returns the error of a file that would be overwritten.
func existing(path string) error {
	return structs.Conflictf("there is a file %s already, and it is not overwritten: "+
		"move it away, or name another directory with -dir", path)
}

// writeAll writes the content of a new file to the disk, and closes it.
func writeAll(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

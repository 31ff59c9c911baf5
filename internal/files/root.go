package files

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"berth/structs"
)

// File is the new content of a file.
type File struct {
	Text string
	Mode fs.FileMode
	// UID and GID are its owner. -1 is the agent's.
	UID, GID int
}

// ReplaceIn writes a new file and renames it, so that no reader sees a part of the text. A killed agent
// leaves one temporary file at most, which the next call removes.
func ReplaceIn(dir *os.Root, name string, f File) error {
	temporary := TemporaryName(name)
	err := dir.RemoveAll(temporary)
	if err != nil {
		return err
	}

	out, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = out.WriteString(f.Text)
	if err == nil {
		err = out.Chown(f.UID, f.GID)
	}
	if err == nil {
		err = out.Chmod(f.Mode) // after the chown, so that the new owner never has the old mode
	}

	err = errors.Join(err, out.Close())
	if err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		_ = dir.Remove(temporary)
	}

	return err
}

// TemporaryName returns the name of a new file, beside the one whose place it takes. It is short for each
// name: most file systems take names of up to 255 bytes. Other names have other temporary names.
func TemporaryName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf(".berth-%x", sum[:8])
}

// ReadIn returns the text of a plain file of at most max bytes. Without the file the error is
// fs.ErrNotExist. Anything else in its place is a precondition.
func ReadIn(dir *os.Root, name string, max int) (string, error) {
	opened, err := dir.Open(".")
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }()

	f, err := OpenPlain(opened, name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()

	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}

	if len(text) > max {
		return "", structs.Preconditionf("%s has more than %d bytes", name, max)
	}

	return string(text), nil
}

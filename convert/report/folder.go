package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"berth/structs"
)

// Folder is the folder with the files of the objects. No file of it leaves the folder, also through a link.
type Folder struct {
	root   *os.Root
	force  bool
	before map[string]bool // the files that were there, and were not replaced
}

// fileMode and folderMode let no other user read: a job file may have secrets, too.
const (
	fileMode   fs.FileMode = 0o600
	folderMode fs.FileMode = 0o700
)

// Open opens a folder, and makes it if it is absent. Unless it is forced, it must be empty.
func Open(dir string, force bool) (*Folder, error) {
	err := os.MkdirAll(dir, folderMode)
	if err != nil {
		return nil, structs.Invalidf("-out: %w", err)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return nil, structs.Invalidf("-out: %w", err)
	case len(entries) > 0 && !force:
		return nil, structs.Conflictf("the folder %s is not empty; expected an empty or a new one, or -force, which replaces files", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, structs.Invalidf("-out: %w", err)
	}
	before, err := filesOf(root)
	if err != nil {
		return nil, errors.Join(structs.Invalidf("-out: %w", err), root.Close())
	}
	return &Folder{root: root, force: force, before: before}, nil
}

// filesOf returns the names of all files of a folder.
func filesOf(root *os.Root) (map[string]bool, error) {
	found := map[string]bool{}
	err := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found[name] = true
		}
		return err
	})
	return found, err
}

// Left returns the names of the files that were in a forced folder, and that no object has replaced.
func (f *Folder) Left() []string {
	return slices.Sorted(maps.Keys(f.before))
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Write writes a file, and makes its folder. It replaces a file of a forced folder, and no other one.
func (f *Folder) Write(name string, text []byte) error {
	err := f.root.MkdirAll(path.Dir(name), folderMode)
	if err != nil {
		return fmt.Errorf("making the folder of %s: %w", name, err)
	}
	if f.force {
		err = f.root.Remove(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replacing %s: %w", name, err)
		}
	}

	file, err := f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	delete(f.before, path.Clean(name))
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// maxFileName is the most bytes of a name of a file, without its ending.
const maxFileName = 200

// FileName returns the name of the file of an object. Different names have different files.
func FileName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		isPlain := c == '-' || c == '_' || c == '.' && i > 0 ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if isPlain {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	text := b.String()
	switch {
	case text == "":
		return "%"
	case len(text) > maxFileName:
		digest := sha256.Sum256([]byte(name))
		return text[:maxFileName-20] + "%" + hex.EncodeToString(digest[:8])
	}
	return text
}

package debug

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"berth/api/show"
	"berth/structs"
)

// finish writes the index, and turns the directory into an archive if it is to be one. It returns the path.
func (d *collector) finish(archive bool) (string, error) {
	d.index.End = show.Now().UTC()
	slices.Sort(d.index.Files)
	err := d.writeJSON("index.json", d.index)
	if err != nil {
		return "", structs.Internalf("writing the index: %w", err)
	}
	if !archive {
		return d.dir, nil
	}

	path := d.dir + ".tar.gz"
	err = pack(path, d.dir)
	if err != nil {
		return "", structs.Internalf("writing %s: %w; the directory %s has the files", path, err, d.dir)
	}
	err = os.RemoveAll(d.dir)
	if err != nil {
		return "", structs.Internalf("removing the directory of the archive: %w", err)
	}
	return path, nil
}

// pack writes the files of a directory to an archive, under the name of the directory.
func pack(path, dir string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	compressed := gzip.NewWriter(f)
	archive := tar.NewWriter(compressed)
	err = filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return add(archive, filepath.Dir(dir), name)
	})
	err = errors.Join(err, archive.Close(), compressed.Close(), f.Close())
	if err != nil {
		_ = os.Remove(path) // a part of an archive would look like one
	}
	return err
}

func add(to *tar.Writer, base, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	shown, err := filepath.Rel(base, name)
	if err != nil {
		return err
	}
	err = to.WriteHeader(&tar.Header{Name: shown, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()})
	if err == nil {
		_, err = io.Copy(to, f)
	}
	return err
}

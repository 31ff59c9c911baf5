package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"berth/internal/files"
)

// The parts of the name of an archive: berth-20261127T130000Z.snap, and .age behind it if it is encrypted.
// The order of the names follows their times.
const (
	timeInName = "20060102T150405Z"
	unfinished = ".part"
)

var named = regexp.MustCompile(`^berth-(\d{8}T\d{6}Z)\.snap(\.age)?$`)

func nameOf(now time.Time, encrypted bool) string {
	name := "berth-" + now.UTC().Format(timeInName) + ".snap"
	if encrypted {
		name += ".age"
	}
	return name
}

// madeAt returns the time in the name of an archive. It is false for the name of another file.
func madeAt(name string) (time.Time, bool) {
	parts := named.FindStringSubmatch(name)
	if parts == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(timeInName, parts[1])
	return at, err == nil
}

// archives returns the names of the archives in a directory, the oldest first. It returns no other files, and
// none of the future. A clock that was ahead has made those: they stay, and count once their time has come.
// Otherwise each later archive would be the oldest one, and go at once.
func archives(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, e := range entries {
		at, ok := madeAt(e.Name())
		if ok && !isFuture(at, now) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// store writes an archive into the directory and removes those beyond Retain. An archive has its name once it
// is whole and on the disk.
func (a *Agent) store(_ context.Context, name string, archive io.Reader) error {
	dir := a.settings.Directory
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}

	part, err := writeFile(dir, name, archive)
	if err == nil {
		err = files.RenameDurable(part, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, removeIfThere(part))
	}
	return a.removeOld()
}

// writeFile writes a new file. No other server that shares the directory has its name. Its owner alone reads
// it: an archive has the secret IDs of the nodes.
func writeFile(dir, name string, content io.Reader) (path string, err error) {
	f, err := os.CreateTemp(dir, name+".*"+unfinished)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return f.Name(), errors.Join(err, f.Close())
}

// removeOld removes the oldest archives beyond Retain, and what a killed server has left unfinished.
func (a *Agent) removeOld() error {
	dir := a.settings.Directory
	names, err := archives(dir)
	if err != nil {
		return err
	}

	var old []string
	for _, name := range names[:max(0, len(names)-a.settings.Retain)] {
		old = append(old, filepath.Join(dir, name))
	}
	left, err := filepath.Glob(filepath.Join(dir, "berth-*.snap*"+unfinished))
	for _, path := range left {
		info, statErr := os.Stat(path)
		if statErr == nil && time.Since(info.ModTime()) > a.settings.Timeout {
			old = append(old, path)
		}
	}
	for _, path := range old {
		err = errors.Join(err, removeIfThere(path))
	}
	return err
}

// removeIfThere removes a file. It removes nothing for "".
func removeIfThere(path string) error {
	if path == "" {
		return nil
	}
	err := os.Remove(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

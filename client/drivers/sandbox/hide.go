package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// hiddenPlaces returns the places in the root at which the binds show hidden paths of the host, and whether
// each is a directory. The real path decides: a symbolic link shows nothing that no bind shows. A path that
// does not exist has no place.
func hiddenPlaces(hidden []string, binds []Bind) (map[string]bool, error) {
	sources := make([]string, len(binds))
	for i, b := range binds {
		real, err := filepath.EvalSymlinks(b.Source)
		if err != nil {
			return nil, hidingError(b.Source, err)
		}
		sources[i] = real
	}

	places := map[string]bool{}
	for _, path := range hidden {
		real, dir, err := resolveHidden(path)
		if err != nil {
			return nil, hidingError(path, err)
		}
		for i, b := range binds {
			if real == "" {
				continue
			}
			if below, within := Below(real, sources[i]); within {
				places[filepath.Join(b.Target, below)] = dir
			} else if _, within := Below(sources[i], real); within { // all that the bind shows is hidden
				places[b.Target] = true
			}
		}
	}
	return places, nil
}

// HiddenPlaces returns the same for the shown paths of the host, which a driver mounts by itself.
func HiddenPlaces(hidden []string, shown map[string]string) (map[string]bool, error) {
	var binds []Bind
	for from, to := range shown {
		_, err := os.Stat(from)
		if err == nil {
			binds = append(binds, Bind{Source: from, Target: to})
		}
	}
	return hiddenPlaces(hidden, binds)
}

// resolveHidden returns the real path, "" for one that does not exist, and whether it is a directory.
func resolveHidden(path string) (real string, dir bool, err error) {
	real, err = filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}

	// The host may remove it at any time.
	info, err := os.Lstat(real)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return real, info.IsDir(), nil
}

// Below returns the path of a file relative to a directory, "." for the directory itself, and whether the
// file is there. Both paths are clean and absolute.
func Below(path, dir string) (rel string, within bool) {
	if path == dir || dir == "/" {
		return "." + strings.TrimPrefix(path, dir), true
	}
	return strings.CutPrefix(path, dir+"/")
}

func hidingError(path string, err error) error {
	return structs.Preconditionf("hiding %s from the task: %w", path, err)
}

// coverDirName and coverFileName are the entries of the file system of the covers.
const (
	coversDir     = "/run/berth/covers"
	coverDirName  = "dir"
	coverFileName = "file"
)

// hide covers the places: a directory by an empty one, a file by an empty one, both read-only.
func hide(places map[string]bool) error {
	if len(places) == 0 {
		return nil
	}

	// All covers are mounts of two entries, because a file system for each path takes longer (ADR 74).
	covers := fileSystem{"tmpfs", coversDir, noSuidDevExec, "mode=755,size=4k,nr_inodes=8"}
	err := covers.mount()
	if err != nil {
		return err
	}
	err = makeCovers()
	if err != nil {
		return fmt.Errorf("making the covers of hidden paths: %w", err)
	}

	// Outer places come first: they hide the inner ones, too.
	for _, place := range slices.Sorted(maps.Keys(places)) {
		err := cover(place, places[place])
		if err != nil {
			return hidingError(place, err)
		}
	}

	// This mount is writable: through it, root in the task could put files into the covers.
	err = unix.Unmount(coversDir, unix.MNT_DETACH) // the mounts on the places keep it
	if err == nil {
		err = os.Remove(coversDir)
	}
	if err != nil {
		return fmt.Errorf("removing the covers of hidden paths: %w", err)
	}
	return nil
}

// makeCovers makes the two entries. Every user may open them, so a program finds nothing instead of an error.
func makeCovers() error {
	err := os.Mkdir(filepath.Join(coversDir, coverDirName), 0o755)
	if err != nil {
		return err
	}
	return unix.Mknod(filepath.Join(coversDir, coverFileName), unix.S_IFREG|0o444, 0)
}

// cover mounts an empty directory or file on a place. A place that is not there is below another cover, or
// another bind is in its way.
func cover(place string, dir bool) error {
	// move_mount by the path would follow links of /proc on its way. openInside does not.
	at, err := openInside(place, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)

	name := coverFileName
	if dir {
		name = coverDirName
	}
	f, err := cloneReadOnly(filepath.Join(coversDir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.MoveMount(int(f.Fd()), "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

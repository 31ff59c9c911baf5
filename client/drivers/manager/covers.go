package manager

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/sandbox"
)

// coversOf returns the mounts that hide what the driver exec hides, for a driver that shows the same paths of
// the host. They are an empty directory and an empty file, which it makes in dir.
func coversOf(cfg exec.Config, dir string) (covers []driver.Mount, err error) {
	places, err := cfg.HiddenPlaces()
	if err != nil {
		return nil, err
	}

	emptyDir, emptyFile := filepath.Join(dir, "dir"), filepath.Join(dir, "file")
	err = makeEmpty(emptyDir, emptyFile)
	if err != nil {
		return nil, fmt.Errorf("making the covers of hidden paths: %w", err)
	}

	// The places are in the order of their paths, so a directory comes before what is below it.
	var hidden []string // directories
	for _, place := range slices.Sorted(maps.Keys(places)) {
		inHidden := slices.ContainsFunc(hidden, func(dir string) bool {
			_, within := sandbox.Below(place, dir)
			return within
		})
		if inHidden {
			continue // the empty directory has no place for it
		}

		empty := emptyFile
		if places[place] {
			empty = emptyDir
			hidden = append(hidden, place)
		}
		covers = append(covers, driver.Mount{
			HostPath: empty,
			TaskPath: place,
			ReadOnly: true,
		})
	}
	return covers, nil
}

// makeEmpty makes the empty directory and the empty file, if an earlier start of a task has not.
func makeEmpty(dir, file string) error {
	err := os.MkdirAll(dir, 0o755)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

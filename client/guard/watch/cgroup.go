package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
)

// ownCgroup is the cgroup of the guards of a machine. One in the cgroup of the agent would end with it, if a
// service manager ends all of a cgroup.
const ownCgroup = "berth-guard"

// ownDirs returns the directories of ownCgroup.
func ownDirs() []string { return cgroups.Detect().Path(ownCgroup, "").Dirs() }

// enterOwnCgroup moves the process out of the cgroups of the agent, as far as the machine lets it.
func enterOwnCgroup() {
	for _, dir := range ownDirs() {
		err := enter(dir)
		if err != nil {
			logf("staying in the cgroup of the agent: %v", err)
		}
	}
}

// enter makes a cgroup and moves the process there. Another guard that ends may remove it in between.
func enter(dir string) error {
	const tries = 10
	var err error
	for range tries {
		err = os.MkdirAll(dir, 0o755)
		if err == nil {
			err = move(dir)
		}
		// ENODEV is the answer of a cgroup that was removed after its file was opened.
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			break
		}
	}
	return err
}

// move moves the process into a cgroup that exists.
func move(dir string) error {
	procs := filepath.Join(dir, "cgroup.procs")
	return os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0)
}

// leaveOwnCgroup moves the process, which is about to end, to the root, and removes the cgroup of the
// guards if this was the last one there: a cgroup with a process cannot be removed.
func leaveOwnCgroup() {
	for _, dir := range ownDirs() {
		_ = move(filepath.Dir(dir))
	}

	err := removeOwnCgroup()
	if err != nil {
		logf("%v", err)
	}
}

// removeOwnCgroup removes the cgroup of the guards, unless there is another guard in it.
func removeOwnCgroup() error {
	var errs []error
	for _, dir := range ownDirs() {
		err := unix.Rmdir(dir)
		// With EBUSY another guard is in it, which removes it at its end.
		if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EBUSY) {
			continue
		}
		errs = append(errs, fmt.Errorf("removing the cgroup of the guards: %w", err))
	}
	return errors.Join(errs...)
}

package watch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/process"
)

// Arg is the argument that makes executor.Main a guard.
const Arg = "guard"

// LeaseFileName is the name of the file of the lease in OrderFiles.Memory.
const LeaseFileName = "lease"

// The names of the other files of a guard in OrderFiles.Memory.
const (
	recordFile = "guard"
	beatFile   = "beat"
)

// Record names the newest guard of a node. An older one that finds another in it, alive, ends.
type Record struct {
	Guard process.Ref
	Agent process.Ref // that started it
}

// Of is what a guard belongs to.
type Of struct {
	Files    OrderFiles
	Agent    process.Ref
	Watchdog string // the device of the machine that it feeds, "" for none
}

// Args returns the arguments with which executor.Main starts a guard for an agent and ends. The guard is then
// no child of the agent, and has a session of its own.
func Args(of Of) []string { return args(startMode, of) }

// The modes of Main: to start a guard, and to be one.
const (
	startMode = "start"
	runMode   = "run"
)

func args(mode string, of Of) []string {
	return []string{
		Arg, mode, of.Files.Dir, of.Files.Memory,
		strconv.Itoa(of.Agent.PID), strconv.FormatUint(of.Agent.Start, 10), of.Watchdog,
	}
}

// parse is the reverse of args, without Arg.
func parse(given []string) (mode string, of Of, err error) {
	if len(given) != 6 || given[0] != startMode && given[0] != runMode {
		err = fmt.Errorf("expected a mode, two directories, the pid and the start of an agent, and a watchdog; found %q", given)
		return "", of, err
	}

	of.Files = OrderFiles{Dir: given[1], Memory: given[2]}
	of.Agent.PID, err = strconv.Atoi(given[3])
	if err == nil {
		of.Agent.Start, err = strconv.ParseUint(given[4], 10, 64)
	}
	of.Watchdog = given[5]
	return given[0], of, err
}

// ReadRecord returns the record of a directory, the zero Record if there is none.
func ReadRecord(memory string) (Record, error) {
	var r Record
	b, err := os.ReadFile(filepath.Join(memory, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// write replaces the record. It lies in memory, so it does not wait for a disk.
func (r Record) write(memory string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}

	path := filepath.Join(memory, recordFile)

	// The guards of two agents may write at the same time.
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	err = os.WriteFile(part, b, 0o600)
	if err == nil {
		err = os.Rename(part, path)
	}
	return err
}

// Works reports whether the guard that an agent has started lives and keeps looking.
func Works(memory string, agent process.Ref) (bool, error) {
	r, err := ReadRecord(memory)
	if err != nil || r.Agent != agent {
		return false, err
	}

	alive, err := isAlive(r.Guard)
	if err != nil || !alive {
		return false, err
	}
	const silence = 12 * poll

	beat, err := readBeat(memory)
	return err == nil && boottime.Now().Sub(beat) < silence, err
}

// beat notes that the guard has just looked.
func beat(memory string, now boottime.Instant) error {
	path := filepath.Join(memory, beatFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}

	_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(now)), 0)
	return errors.Join(err, f.Close())
}

func readBeat(memory string) (boottime.Instant, error) {
	b, err := os.ReadFile(filepath.Join(memory, beatFile))
	if err != nil {
		return 0, err
	}

	if len(b) != 8 {
		return 0, fmt.Errorf("the beat of the guard has %d bytes; expected 8", len(b))
	}
	return boottime.Instant(binary.LittleEndian.Uint64(b)), nil
}

// dismiss is the signal by which an agent that has no orders any more ends its guard in order: a guard that
// is killed does not close the watchdog.
const dismiss = unix.SIGUSR2

// Stop ends the newest guard of a directory without orders, and returns when it has ended. It kills one that
// has not ended within the limit. It removes the cgroup of the guards after the last one.
func Stop(memory string, limit time.Duration) error {
	r, err := ReadRecord(memory)
	if err != nil {
		return err
	}

	ctx, cancel := timeout(limit)
	defer cancel()
	err = r.Guard.Signal(dismiss)
	if err == nil {
		err = r.Guard.Wait(ctx)
	}

	// A guard that hangs in a look does not come to the signal.
	if err != nil {
		kill, cancel := timeout(limit)
		defer cancel()
		err = r.Guard.Kill(kill)
	}
	// A guard that was killed has not removed it.
	return errors.Join(err, removeOwnCgroup())
}

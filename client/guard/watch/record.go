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

	"berth/client/drivers/procref"
	"berth/client/guard/order"
	"berth/internal/boottime"
)

// Arg is the argument that makes executor.Main a guard.
const Arg = "guard"

// LeaseFile is the name of the file of the lease in order.Files.Memory.
const LeaseFile = "lease"

// The names of the other files of a guard in order.Files.Memory.
const (
	recordFile = "guard"
	beatFile   = "beat"
)

// Record names the newest guard of a node. An older one that finds another in it, alive, ends.
type Record struct {
	Guard procref.Ref
	Agent procref.Ref // that started it
}

// Args returns the arguments with which executor.Main starts a guard for an agent and ends. The guard is then
// no child of the agent, and has a session of its own.
func Args(files order.Files, agent procref.Ref) []string {
	return args(startMode, files, agent)
}

// The modes of Main: to start a guard, and to be one.
const (
	startMode = "start"
	runMode   = "run"
)

func args(mode string, files order.Files, agent procref.Ref) []string {
	return []string{
		Arg, mode, files.Dir, files.Memory,
		strconv.Itoa(agent.PID), strconv.FormatUint(agent.Start, 10),
	}
}

// parse is the reverse of args, without Arg.
func parse(given []string) (mode string, files order.Files, agent procref.Ref, err error) {
	if len(given) != 5 || given[0] != startMode && given[0] != runMode {
		err = fmt.Errorf("expected a mode, two directories, and the pid and the start of an agent; found %q", given)
		return "", files, agent, err
	}
	files = order.Files{Dir: given[1], Memory: given[2]}
	agent.PID, err = strconv.Atoi(given[3])
	if err == nil {
		agent.Start, err = strconv.ParseUint(given[4], 10, 64)
	}
	return given[0], files, agent, err
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
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	err = os.WriteFile(part, b, 0o600)
	if err == nil {
		err = os.Rename(part, path)
	}
	return err
}

// Works reports whether the guard that an agent has started lives and keeps looking.
func Works(memory string, agent procref.Ref) (bool, error) {
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

// Stop kills the newest guard of a directory, and returns when it has ended, or the limit has passed. It
// removes the cgroup of the guards after the last one.
func Stop(memory string, limit time.Duration) error {
	r, err := ReadRecord(memory)
	if err != nil {
		return err
	}
	ctx, cancel := timeout(limit)
	defer cancel()
	return errors.Join(r.Guard.Kill(ctx), removeOwnCgroup())
}

package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/internal/crc32c"
	"berth/internal/files"
	"berth/internal/process"
)

// record is task.json.
type record struct {
	TaskID     string
	Driver     string
	Boot       string
	Supervisor process.Ref
	// Task is the process with which the task ends: the supervisor of a sandbox, also before it has started
	// the program; else the first process of the program, zero until that is started.
	Task   process.Ref
	Cgroup cgroups.Group
	// Sessions are the commands that were started beside the program of a task without a cgroup. The
	// processes of a cgroup are found without them.
	Sessions []process.Ref `json:",omitempty"`
}

// maxRecorded bounds the recorded sessions. The oldest are dropped.
const maxRecorded = 256

// thisBoot reports whether the record is of this boot. The pids and cgroups of an earlier one mean nothing.
func (r *record) thisBoot() (bool, error) {
	boot, err := process.BootID()
	return boot == r.Boot, err
}

// readRecord returns nil if there is no record, or an empty one: a power cut has taken its content, and ended
// all that it named.
func readRecord(dir string) (*record, error) {
	return readJSON[record](filepath.Join(dir, recordFile))
}

// lostRecord reports whether the record is of an earlier boot by the time of its file. A power cut may leave
// a part of it, or zeros.
func lostRecord(dir string) (bool, error) {
	info, err := os.Stat(filepath.Join(dir, recordFile))
	if err != nil {
		return false, err
	}
	boot, err := process.BootTime()
	return err == nil && info.ModTime().Before(boot), err
}

// writeRecord replaces the record. It does not wait for the disk, because a record is of use only under its
// boot.
func (r *record) writeRecord(dir string) error {
	b, err := encodeSummed(r)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	err = os.WriteFile(path+".tmp", b, 0o600)
	if err != nil {
		return err
	}

	// The agent may read at any time, and never finds a part of a record.
	return os.Rename(path+".tmp", path)
}

// readExit returns nil if no exit result is recorded.
func readExit(dir string) (*driver.ExitResult, error) {
	return readJSON[driver.ExitResult](filepath.Join(dir, exitFile))
}

// exitSize is the reserved size. The longest exit result takes less.
const exitSize = 4096

// reserveExit reserves disk space for the exit result, so that a disk that is full when the task ends does
// not lose it.
func reserveExit(dir string) error {
	blank := bytes.Repeat([]byte(" "), exitSize)
	return os.WriteFile(filepath.Join(dir, exitFile+".tmp"), blank, 0o600)
}

// writeExit writes the result over the reserved space. The result is durable when it returns.
func writeExit(dir string, r *driver.ExitResult) error {
	const maxErr = 1024
	if len(r.Err) > maxErr {
		short := *r
		short.Err = r.Err[:maxErr]
		r = &short
	}
	b, err := encodeSummed(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, exitFile+".tmp")
	if err := writeSynced(tmp, b); err != nil {
		return err
	}
	return files.RenameDurable(tmp, filepath.Join(dir, exitFile))
}

// writeSynced writes over the begin of a file, which it makes if it is not there.
func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// errDamaged is of a file that was read and cannot be decoded.
var errDamaged = errors.New("it is damaged")

// readJSON returns nil if there is no file, or an empty one.
func readJSON[T any](path string) (*T, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(b) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := decodeSummed(b, v); err != nil {
		return nil, fmt.Errorf("reading %s: %w: %w", path, errDamaged, err)
	}
	return v, nil
}

// sumField is the last field of a file. It holds the CRC-32 (Castagnoli) of the text before it. If a damaged
// record had another pid, a second task could start beside the first.
const sumField = `,"Sum":"%08x"}`

// encodeSummed encodes a struct with at least one field.
func encodeSummed(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1] // the closing brace
	return fmt.Appendf(b, sumField, crc32c.Sum(b)), nil
}

// decodeSummed decodes the result of encodeSummed.
func decodeSummed(b []byte, v any) error {
	b = bytes.TrimRight(b, " ") // of reserveExit
	at := len(b) - len(fmt.Sprintf(sumField, 0))
	if at < 0 || string(b[at:]) != fmt.Sprintf(sumField, crc32c.Sum(b[:at])) {
		return errors.New("the checksum does not match")
	}
	return json.Unmarshal(b, v)
}

// takeLock locks a task's directory. Nil without an error means that a supervisor has the lock. The lock
// belongs to the open file, so a process that inherits the file has the lock.
func takeLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, f.Close()
	}
	if err != nil {
		err = fmt.Errorf("locking %s: %w", path, err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// supervised reports whether a supervisor lives in the directory. It never blocks a supervisor that starts.
func supervised(dir string) (bool, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l)
	if err != nil {
		return false, fmt.Errorf("testing the lock of %s: %w", path, err)
	}
	return l.Type != unix.F_UNLCK, nil
}

package manager

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/files"
)

// embedded is the program of the supervisors of tasks, berth-executor, packed by gzip. It is empty if the
// executable has none (`make build` embeds it). Each task starts a process of it. An agent without it starts
// its own executable, whose many packages take four times as long to start (ADR 41).
var embedded []byte

// EmbedProgram says which program, packed by gzip, the executable has. The executable calls it before its
// agent starts. installEmbedded gives the memory of the slice back, so it must be a part of the executable's
// file.
func EmbedProgram(packed []byte) { embedded = packed }

// installEmbedded writes the program into a directory of its own and returns the command that runs it. It
// returns nil if this build has no program, or the file system of the directory runs none or has no space for
// it: an agent starts on a full disk, also as another build. It removes the programs of
// other builds: a process that runs one keeps it.
func installEmbedded(dir string) ([]string, error) {
	defer releaseMemory(embedded)
	return installProgram(dir, embedded)
}

// releaseMemory gives the memory of the program back, which is a part of the agent's executable: the agent
// needs it no more. A later read reads the executable again.
func releaseMemory(content []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(content)))) & (page - 1)
	whole := (len(content) - skip) &^ (page - 1)
	if whole > 0 {
		_ = unix.Madvise(content[skip:skip+whole], unix.MADV_DONTNEED) // it only saves memory
	}
}

func installProgram(dir string, packed []byte) ([]string, error) {
	if len(packed) == 0 {
		return nil, nil
	}

	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}

	var st unix.Statfs_t
	err = unix.Statfs(dir, &st)
	if err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}

	if st.Flags&unix.ST_NOEXEC != 0 {
		return nil, nil
	}

	// The name tells the build, and the checksum of the whole file that nothing has damaged it since.
	sum := sha256.Sum256(packed)
	path := filepath.Join(dir, "berth-executor-"+hex.EncodeToString(sum[:8]))
	whole, err := isWhole(path, packed)
	if err != nil {
		return nil, err
	}

	if !whole {
		err = writeProgram(path, packed)
		if files.IsNoSpace(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}

	return []string{path}, removeOtherPrograms(dir, path)
}

// isWhole reports whether a file has the program: its checksum and size are at the end of the packed one (RFC
// 1952). So a start of the agent does not unpack the program again.
func isWhole(path string, packed []byte) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	defer func() { _ = f.Close() }()
	sum := crc32.NewIEEE()
	size, err := io.Copy(sum, f)
	trailer := binary.LittleEndian.AppendUint32(nil, sum.Sum32())
	trailer = binary.LittleEndian.AppendUint32(trailer, uint32(size))
	return bytes.HasSuffix(packed, trailer), err
}

// writeProgram makes the file at once, so that no process starts a part of it.
func writeProgram(path string, packed []byte) error {
	part := path + ".part"
	err := unpackProgram(part, packed)
	if err != nil {
		_ = os.Remove(part) // it would take space for nothing
		return fmt.Errorf("unpacking the program of supervisors: %w", err)
	}

	err = files.SyncDurable(part)
	if err == nil {
		err = files.RenameDurable(part, path)
	}
	return err
}

func unpackProgram(path string, packed []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Chmod(0o700), f.Close())
}

func removeOtherPrograms(dir, path string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		other := filepath.Join(dir, e.Name())
		if other != path {
			errs = append(errs, os.Remove(other))
		}
	}
	return errors.Join(errs...)
}

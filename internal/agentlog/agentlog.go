// Package agentlog writes the log of an agent to a file, besides its standard error. A file that is full or
// old is renamed, and the oldest renamed files are deleted. A fault of the file never stops the agent: the
// lines are still on standard error, and the next line tries the file again.
//
// A renamed file has the time of its rotation in its name, before the extension: a.log becomes
// a-20261128T171500.000000000Z.log. The files of the audit log are Rotating, too.
//
// A Tap passes the lines of the log on to readers that come and go.
package agentlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/conf"
	"berth/structs"
)

// The bounds of the settings.
const (
	minBytes    = 4 << 10
	minDuration = time.Second
	maxDuration = 10 * 365 * 24 * time.Hour
	maxFiles    = 100_000
	maxPath     = 1024
)

// defaultName is the name of the file in a directory.
const defaultName = "berth.log"

// Config has the settings of a log file.
type Config struct {
	Path           string        // absolute; a path that ends with / is a directory; "": there is no file
	RotateBytes    conf.ByteSize // 0: no bound
	RotateDuration time.Duration
	RotateMaxFiles int // renamed files; 0 keeps all, -1 keeps none
}

// Finish gives a directory the default name of the file.
func (c *Config) Finish() {
	if strings.HasSuffix(c.Path, "/") {
		c.Path = filepath.Join(c.Path, defaultName)
	}
}

// Validate joins all faults.
func (c Config) Validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}

	require(c.Path == "" || filepath.IsAbs(c.Path) && len(c.Path) <= maxPath,
		"log_file is %.64q; expected an absolute path of at most %d bytes", c.Path, maxPath)
	require(c.RotateBytes == 0 || c.RotateBytes >= minBytes,
		"log_rotate_bytes is %d; expected 0, which is no bound, or at least %d", int64(c.RotateBytes), minBytes)
	require(c.RotateDuration >= minDuration && c.RotateDuration <= maxDuration,
		"log_rotate_duration is %s; expected %s to %s", c.RotateDuration, minDuration, maxDuration)
	require(c.RotateMaxFiles >= -1 && c.RotateMaxFiles <= maxFiles,
		"log_rotate_max_files is %d; expected -1 to %d: 0 keeps all files, -1 keeps none",
		c.RotateMaxFiles, maxFiles)
	return errors.Join(faults...)
}

// File writes lines to standard error and to a file. It is safe for concurrent use.
type File struct {
	stderr io.Writer

	mu    sync.Mutex // it guards the fields below, and is held during a write
	lines Rotating
	fault error // of the last rotation
	told  bool  // the fault of the file is on standard error
}

// Open opens the file of cfg, which must be valid, and makes it with its directory if it is not there. Only
// root and the owner read it: a log names things of all namespaces.
func Open(cfg Config, stderr io.Writer) (*File, error) {
	f := &File{stderr: stderr}
	f.lines = Rotating{
		Path:     cfg.Path,
		Mode:     0o600,
		Bytes:    int64(cfg.RotateBytes),
		Age:      cfg.RotateDuration,
		MaxFiles: cfg.RotateMaxFiles,
		Now:      time.Now,
		Opened:   f.began,
		Warn:     func(err error) { f.fault = err },
	}
	err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700)
	if err == nil {
		err = f.lines.Ready(0)
	}
	if err != nil {
		return nil, fmt.Errorf("log_file: %w", err)
	}
	return f, nil
}

// Write writes lines to standard error and to the file. Its error is standard error's alone.
func (f *File) Write(lines []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.stderr.Write(lines)

	fault := f.append(lines)
	if fault != nil && !f.told {
		// Without the mark each further line would be two.
		fmt.Fprintf(f.stderr, "log_file: the file lacks lines from here on: %s\n", fault)
	}
	f.told = fault != nil
	return n, err
}

// Close closes the file. Lines after it open the file again.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines.Close()
}

// append writes lines to the file. It returns the fault of a rotation, too: the file has the lines then.
func (f *File) append(lines []byte) error {
	f.fault = nil
	err := f.lines.Ready(len(lines))
	if err == nil {
		err = f.lines.Append(lines)
	}
	if err != nil {
		f.lines.Close()
	}
	return errors.Join(f.fault, err)
}

// began returns the time at which a file with lines began: its birth, or, where the file system has none, its
// last change.
func (f *File) began(info os.FileInfo) (time.Time, error) {
	var st unix.Statx_t
	err := unix.Statx(int(f.lines.File.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return info.ModTime(), nil
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), nil
}

// Files returns the paths of a log file and of its renamed files that have changed since a time, the oldest
// first.
func Files(path string, since time.Time) ([]string, error) {
	paths, err := RotatedFiles(path)
	if err != nil {
		return nil, structs.Internalf("listing the log files: %w", err)
	}
	paths = append(paths, path)
	return slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist) || err == nil && info.ModTime().Before(since)
	}), nil
}

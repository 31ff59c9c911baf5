package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// Program is the program to run. Start also works without a sandbox.
type Program struct {
	Driver   string // named in errors
	Where    string // the place of the program, for errors: "in the task's root"
	Command  string // a path, or a name to be found in Env's PATH
	Args     []string
	Env      []string
	Dir      string
	User     *User // nil: the caller's user
	Restrict bool  // keep few capabilities, and gain none by set-uid files
	// Seccomp, with Restrict, bounds the system calls by Filter.
	Seccomp bool
	Filter  Filter
	NoFile  uint64 // the number of files that it may have open; 0: as many as the caller

	// mounts is the mount namespace of the program; nil: this process's. Running owns the file.
	mounts *os.File
}

// User is the user of a program.
type User struct {
	UID, GID uint32
	Groups   []uint32 // the supplementary groups, all of them: it keeps none of the caller
}

// stdio are the files of a program. Without in, stdin is /dev/null. With terminal, in is the controlling
// terminal of the program's session.
type stdio struct {
	in, out, err *os.File
	terminal     bool
}

// Start starts the program inside the cgroup and returns its pid, which the caller reaps.
func (p *Program) Start(stdout, stderr *os.File, entry *cgroups.Entry) (int, error) {
	return p.start(stdio{out: stdout, err: stderr}, entry)
}

// start starts the program from a thread that enters its mounts and drops the rights that it must not have.
// The thread ends afterwards.
func (p *Program) start(files stdio, entry *cgroups.Entry) (pid int, err error) {
	cgroups.OnOwnThread(func() {
		if p.mounts != nil {
			err = closeDirectories(entry)
		}
		if err == nil {
			err = enterMounts(p.mounts)
		}
		if err == nil {
			pid, err = p.startHere(files, entry)
		}
	})
	return pid, err
}

func (p *Program) startHere(files stdio, entry *cgroups.Entry) (int, error) {
	if files.in == nil {
		null, err := openNull()
		if err != nil {
			return 0, err
		}
		defer null.Close()

		files.in = null
	}

	// The errors of execve do not tell a missing program from a missing interpreter, so it is looked for
	// before.
	path, err := p.findProgram()
	if err != nil {
		return 0, err
	}

	// The limit holds for the whole process: the supervisor has it from here on.
	if p.NoFile > 0 {
		if err := limitFiles(p.NoFile); err != nil {
			return 0, err
		}
	}

	pid, err := p.fork(path, p.attributes(files), entry)
	if err != nil {
		return 0, p.explainStartError(path, err)
	}

	return pid, nil
}

// attributes returns the settings of the fork, except the cgroup's.
func (p *Program) attributes(files stdio) *syscall.ProcAttr {
	attr := &syscall.ProcAttr{
		Dir: p.Dir,
		Env: p.Env,
		Files: []uintptr{
			files.in.Fd(),
			files.out.Fd(),
			files.err.Fd(),
		},
		Sys: &syscall.SysProcAttr{
			// A session, and so a process group, of its own: Children.kill signals the group, and a
			// supervisor without a cgroup finds the processes by the session.
			Setsid:  true,
			Setctty: files.terminal, // Ctty is 0: stdin
		},
	}

	if p.User != nil {
		attr.Sys.Credential = &syscall.Credential{
			Uid:    p.User.UID,
			Gid:    p.User.GID,
			Groups: p.User.Groups,
		}
	}

	return attr
}

// openNull opens /dev/null of the program. A mount of the job may have replaced it.
func openNull() (*os.File, error) {
	fd, err := openInside(os.DevNull, unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	f := os.NewFile(uintptr(fd), os.DevNull)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3)) {
		err = structs.Preconditionf("%s is another file in the task's root", os.DevNull)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// limitFiles bounds the number of files that the program may have open, up to the hard limit of this process.
func limitFiles(n uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur = min(n, l.Max)
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

// findProgram looks the command up as a shell would.
func (p *Program) findProgram() (string, error) {
	if !strings.Contains(p.Command, "/") {
		return p.searchPath()
	}

	path := p.Command
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Dir, path)
	}

	mode, err := modeInside(path)
	switch {
	case errors.Is(err, unix.ELOOP): // a link of /proc, which only the process itself may follow
		return path, nil
	case err != nil:
		return "", structs.Invalidf(
			"%s: command %q not found %s", p.Driver, p.Command, p.Where)
	case !isExecutable(mode):
		return "", structs.Invalidf(
			"%s: command %q is not an executable file", p.Driver, p.Command)
	}

	return path, nil
}

// searchPath looks for the command in the directories of PATH. The last PATH of the environment counts, and a
// file that is not executable is passed over.
func (p *Program) searchPath() (string, error) {
	var search string
	for _, e := range p.Env {
		v, ok := strings.CutPrefix(e, "PATH=")
		if ok {
			search = v
		}
	}

	for _, dir := range filepath.SplitList(search) {
		path := filepath.Join(dir, p.Command)
		mode, err := modeInside(path)
		if err == nil && isExecutable(mode) {
			return path, nil
		}
	}

	return "", structs.Invalidf(
		"%s: command %q not found %s (PATH=%s)", p.Driver, p.Command, p.Where, search)
}

// modeInside returns the type and the permissions of a file of the program. It does not tell of files of the
// host: see openInside.
func modeInside(path string) (uint32, error) {
	fd, err := openInside(path, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Mode, err
}

func isExecutable(mode uint32) bool { return !isDirectory(mode) && mode&0o111 != 0 }

func isDirectory(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFDIR }

// explainStartError describes the kernel's error on starting the program.
func (p *Program) explainStartError(path string, err error) error {
	mode, statErr := modeInside(p.Dir)
	if p.Dir != "" && (statErr != nil || !isDirectory(mode)) {
		return structs.Invalidf(
			"%s: work_dir %q is not a directory %s", p.Driver, p.Dir, p.Where)
	}

	// The causes in the hints are the usual ones: the program itself was there a moment before.
	hint := map[error]string{
		unix.ENOENT:  " (is the interpreter it names, or its dynamic loader, " + p.Where + "?)",
		unix.ENOEXEC: " (is it a program of this machine's architecture, or a script without a #! line?)",
		unix.EACCES:  " (may the task's user execute it and enter the directories above it?)",
	}
	for errno, text := range hint {
		if errors.Is(err, errno) {
			return structs.Invalidf("%s: starting %s: %w%s", p.Driver, path, err, text)
		}
	}
	return fmt.Errorf("%s: starting %s: %w", p.Driver, path, err)
}

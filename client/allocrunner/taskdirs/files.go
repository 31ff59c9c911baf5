package taskdirs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/client/hooks"
	"berth/internal/files"
	"berth/structs"
)

// Files reads and writes the files of a task by the paths that its job has for them: in the task's own
// directory, and in that which the tasks of the allocation share. The task may change them at any time. So
// every access goes through an os.Root or files.FindPlain, and no file outside of the directories is ever
// read or written.
type Files struct {
	task, shared string
	places       []place
}

// place is a directory as the task sees it.
type place struct {
	seen string
	root string // the host's directory
	rel  string // the path below it
}

// NewFiles returns the directories of a task.
func NewFiles(env *hooks.TaskEnv) *Files {
	own := env.Config.Dirs.Task
	shared := env.Config.Dirs.AllocShared
	return &Files{own, shared, []place{
		{env.Seen.Local, own, "local"},
		{env.Seen.Secrets, own, "secrets"},
		{env.Seen.AllocShared, shared, "."},
		{own, own, "."}, // of a task that sees the host's paths
	}}
}

// locate returns the directory and the path below it that a job means: relative to the task's directory, or
// as the task sees it. alloc is the directory of all tasks.
func (d *Files) locate(written string) (root, rel string, err error) {
	// Only clean paths can be compared by their text.
	p := path.Clean(written)
	if path.IsAbs(p) {
		for _, at := range d.places {
			rel, ok := below(p, at.seen)
			if ok {
				return at.root, path.Join(at.rel, rel), nil
			}
		}
		return "", "", outside(written)
	}

	// Jobs use both names for the directory of all tasks.
	for _, name := range []string{"alloc", "../alloc"} {
		rel, ok := below(p, name)
		if ok {
			return d.shared, rel, nil
		}
	}

	// Nothing else above the directory of the task is for it.
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", "", outside(written)
	}

	return d.task, p, nil
}

// Own returns the path, relative to the task's own directory, that a job means. A path in the directory that
// the tasks of the allocation share is denied.
func (d *Files) Own(written string) (rel string, err error) {
	root, rel, err := d.locate(written)
	if err == nil && root != d.task {
		err = structs.Deniedf("%q is in the directory that the tasks of the group share",
			structs.Cut(written, structs.MaxQuoted))
	}
	return rel, err
}

func outside(written string) error {
	return structs.Deniedf("%q is outside of the directories of the task: local, secrets, tmp and alloc",
		structs.Cut(written, structs.MaxQuoted))
}

// below returns the rest of a clean path below a directory.
func below(p, dir string) (rel string, ok bool) {
	if p == dir {
		return ".", true
	}
	return strings.CutPrefix(p, dir+"/")
}

// ReadFile reads a regular file of at most max bytes.
func (d *Files) ReadFile(written string, max int) (string, error) {
	dir, rel, err := d.locate(written)
	if err != nil {
		return "", err
	}

	at, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer at.Close()

	// A pipe or a device in the place of the file would hang the reader.
	f, err := files.FindPlain(at, rel)
	if err != nil {
		return "", explain(written, err)
	}
	defer f.Close()

	// One byte more shows that the file is too large.
	b, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(b) > max {
		err = structs.Preconditionf("%q is too large: a template reads files of at most %d bytes in all",
			written, structs.MaxTemplateBytes)
	}

	return string(b), err
}

// explain names the path of an error. An error of os.Root that is none of the system is a way out of the
// directory, and so is EXDEV.
func explain(written string, err error) error {
	_, ofSystem := errors.AsType[syscall.Errno](err)
	switch {
	case structs.IsKind(err, structs.KindPrecondition):
		return structs.Preconditionf("%q is not a regular file", written)
	case ofSystem && !errors.Is(err, unix.EXDEV), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%q: %w", written, err)
	}
	return structs.Deniedf("%q leads out of the directories of the task: %w", written, err)
}

// WriteFile makes the file, with the directories above it, or replaces it as a whole.
func (d *Files) WriteFile(written string, f files.File) error {
	dir, rel, err := d.locate(written)
	if err != nil {
		return err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	above := path.Dir(rel)
	err = root.MkdirAll(above, 0o755)
	if err != nil {
		return explain(written, err)
	}

	// All further steps are in the directory that is found once, whatever the task puts in its place.
	parent, err := root.OpenRoot(above)
	if err != nil {
		return explain(written, err)
	}
	defer parent.Close()

	err = files.ReplaceIn(parent, path.Base(rel), f)
	if err != nil {
		return explain(written, err)
	}

	return nil
}

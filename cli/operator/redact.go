package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"berth/cli/command"
	"berth/cli/watch"
	"berth/internal/snaparchive"
	"berth/structs"
)

var redactCommand = command.Command{
	Name:     "redact",
	Args:     "<file> [redacted]",
	Synopsis: "Make an archive that others may have of a saved state",
	Help: `
The new file has the structure of the cluster: nodes, plugins, volumes, jobs,
allocations and evaluations with their names, IDs, states, numbers and
constraints. It lacks keys, certificates, variables, tokens, policies and
secrets, also encrypted ones. It lacks what users write: environments,
configurations, templates, artifacts, metadata, parameters, checks and the
sources of jobs, and all messages. A name must not be a secret.

The saved file stays as it is. Without the second argument the new file has
its name with .redacted. It is not encrypted, and no server restores it. The
command calls no agent.`,
	Acts:  true,
	Local: true,
	Flags: []command.Flag{IdentityFlag},
	Run:   snapshotRedact,
	Examples: "berth operator snapshot redact backup.snap\n" +
		"berth operator snapshot redact -identity key.txt backup.snap.age support.snap",
}

// snapshotRedact never replaces a file: it may be a backup.
func snapshotRedact(ctx context.Context, c *command.Call) error {
	f, meta, err := openVerified(ctx, c)
	if err != nil {
		return err
	}
	defer command.CloseRead(f)

	name := c.Arg(0) + ".redacted"
	if len(c.Args) > 1 {
		name = c.Arg(1)
	}
	redacted := *meta
	redacted.Redacted = true
	err = watch.New(c).AwaitAnswer(ctx, "the redacted state", func() error {
		return writeRedacted(f, redacted, name)
	})
	if err != nil {
		return err
	}
	return c.Report(&redacted, "Wrote the redacted state as of index %d to %s", meta.Index, name)
}

// writeRedacted writes the archive under its name once it is whole. The size of the state comes first in an
// archive, so the state has a file of its own before.
func writeRedacted(f *archive, meta snaparchive.Meta, name string) error {
	dir := filepath.Dir(name)
	var files []*os.File
	for range 2 {
		tmp, err := os.CreateTemp(dir, ".berth-snapshot-*")
		if err != nil {
			return structs.Invalidf("%w", err)
		}
		defer func() {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}()
		files = append(files, tmp)
	}
	state, out := files[0], files[1]

	size, err := redactState(f, state)
	switch {
	case structs.IsKind(err, structs.KindInvalid):
		return fmt.Errorf("%s: %w", f.Name(), err)
	case err != nil:
		return err // of the new file
	}
	err = snaparchive.Write(out, meta, size, io.NewSectionReader(state, 0, size))
	if err == nil {
		err = out.Sync()
	}
	if err != nil {
		return err
	}

	// An empty file keeps the name until then: not every file system has links.
	taken, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return structs.Conflictf("there is a file %s already, and it is not overwritten", name)
	}
	if err != nil {
		return err
	}
	err = errors.Join(taken.Close(), os.Rename(out.Name(), name))
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// redactState writes the redacted state of an archive that is verified, and returns its size.
func redactState(f *archive, state io.WriteSeeker) (size int64, err error) {
	err = withState(f, func(r io.Reader) error { return redactSaved(r, state) })
	if err != nil {
		return 0, err
	}
	return state.Seek(0, io.SeekCurrent)
}

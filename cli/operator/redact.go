package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"berth/cli/command"
	"berth/cli/watch"
	"berth/internal/snaparchive"
	"berth/state/redaction"
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
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	err = snaparchive.Write(out, meta, size, io.NewSectionReader(state, 0, size))
	if err == nil {
		err = out.Sync()
	}
	if err != nil {
		return err
	}

	err = os.Link(out.Name(), name)
	if os.IsExist(err) {
		return structs.Conflictf("there is a file %s already, and it is not overwritten", name)
	}
	return err
}

// redactState writes the redacted state of an archive that is verified, and returns its size.
func redactState(f *archive, state io.WriteSeeker) (size int64, err error) {
	content, err := f.content()
	if err != nil {
		return 0, err
	}
	out, in := io.Pipe()
	unpacked := make(chan struct{})
	go func() {
		defer close(unpacked)
		_, err := snaparchive.Read(content, in)
		in.CloseWithError(err)
	}()
	err = redaction.Redact(out, state)
	_ = out.Close() // ends the writer of a state that is damaged
	<-unpacked
	if err != nil {
		return 0, err
	}
	return state.Seek(0, io.SeekCurrent)
}

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
	"berth/structs"
)

// snapshotSave writes a temporary file and renames it, so that an existing file is complete.
func snapshotSave(ctx context.Context, c *command.Call) (err error) {
	name := c.Arg(0)
	tmp, err := os.CreateTemp(filepath.Dir(name), ".berth-snapshot-*")
	if err != nil {
		return structs.Invalidf("%w", err)
	}
	defer func() {
		_ = tmp.Close()
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()

	err = watch.New(c).Await(ctx, "the servers, which send the state", watch.SeeServers, func() error {
		return c.API.SnapshotSave(ctx, tmp)
	})
	if err != nil {
		return err
	}

	_, err = tmp.Seek(0, io.SeekStart)
	if err != nil {
		return err
	}

	meta, err := readArchive(ctx, c, tmp, io.Discard)
	if err != nil {
		return fmt.Errorf("verifying the archive: %w", err)
	}

	err = tmp.Sync()
	if err != nil {
		return err
	}

	err = os.Rename(tmp.Name(), name)
	if err != nil {
		return err
	}

	return c.Report(meta, "Saved the state as of index %d to %s", meta.Index, name)
}

// readArchive verifies all of an archive and writes the state in it to state. It says so if that takes long.
func readArchive(
	ctx context.Context, c *command.Call, archive io.Reader, state io.Writer,
) (meta *snaparchive.Meta, err error) {
	err = watch.New(c).AwaitAnswer(ctx, "the end of the archive, which it verifies", func() (err error) {
		meta, err = snaparchive.Read(interruptible{ctx, archive}, state)
		return err
	})
	if ctx.Err() != nil { // no request has begun
		return nil, structs.Timeoutf("interrupted")
	}
	return meta, err
}

// openArchive opens an archive, verifies all of it and writes the state in it to state. It never seeks, so an
// archive may come through a pipe.
func openArchive(
	ctx context.Context, c *command.Call, name string, state io.Writer,
) (*os.File, *snaparchive.Meta, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, structs.Invalidf("%w", err)
	}
	meta, err := readArchive(ctx, c, f, state)
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, meta, nil
}

// interruptible reads until its context ends.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	return r.Reader.Read(p)
}

// openVerified opens and verifies an archive that is read a second time: the file is at its start.
func openVerified(ctx context.Context, c *command.Call, name string) (*os.File, *snaparchive.Meta, error) {
	f, meta, err := openArchive(ctx, c, name, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	if err != nil {
		_ = f.Close()
		return nil, nil, structs.Invalidf("archive %s: not a seekable file: %w", name, err)
	}
	return f, meta, nil
}

func snapshotRestore(ctx context.Context, c *command.Call) error {
	f, meta, err := openVerified(ctx, c, c.Arg(0))
	if err != nil {
		return err
	}
	defer command.CloseRead(f)
	err = watch.New(c).Await(ctx, "the servers, which replace their state", watch.SeeServers, func() error {
		return c.API.SnapshotRestore(ctx, f)
	})
	if err != nil {
		return err
	}
	return c.Report(meta, "Restored the state as of index %d", meta.Index)
}

// snapshotFile is the answer of inspect.
type snapshotFile struct {
	*snaparchive.Meta
	Size      int64 // of the archive
	StateSize int64
}

func snapshotInspect(ctx context.Context, c *command.Call) error {
	state := &counter{}
	f, meta, err := openArchive(ctx, c, c.Arg(0), state)
	if err != nil {
		return err
	}
	defer command.CloseRead(f)

	info, err := f.Stat()
	if err != nil {
		return err
	}

	file := snapshotFile{
		Meta:      meta,
		Size:      info.Size(),
		StateSize: state.n,
	}

	return c.Show(file, func() error {
		c.Pairs(
			"Index", fmt.Sprint(meta.Index),
			"Term", fmt.Sprint(meta.Term),
			"Region", meta.Region,
			"Written by", meta.Berth,
			"Created", command.FormatTime(meta.Created),
			"Size", command.FormatSize(file.Size),
			"Size of the state", command.FormatSize(file.StateSize),
		)

		c.Printf("The archive is complete\n")
		return nil
	})
}

// counter counts the bytes that are written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

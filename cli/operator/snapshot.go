package operator

import (
	"berth/api/operator"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/internal/agefile"
	"berth/internal/snaparchive"
	"berth/structs"
	"berth/structs/access"
)

// snapshotSave writes a temporary file and renames it, so that an existing file is complete.
func snapshotSave(ctx context.Context, c *command.Call) (err error) {
	to, err := recipients(c)
	if err != nil {
		return err
	}

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

	out, err := agefile.Encrypt(tmp, to)
	if err != nil {
		return err
	}

	meta, err := saveVerified(ctx, c, out)
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}

	err = tmp.Sync()
	if err != nil {
		return err
	}

	err = os.Rename(tmp.Name(), name)
	if err != nil {
		return err
	}

	if len(to) > 0 {
		return c.Report(meta, "Saved the state as of index %d to %s, encrypted for %s",
			meta.Index, name, show.Plural(len(to), "recipient"))
	}

	return c.Report(meta, "Saved the state as of index %d to %s", meta.Index, name)
}

// saveVerified writes an archive of the servers to out, and verifies all of it on its way. It reads no copy,
// because nobody here may be able to decrypt one.
func saveVerified(ctx context.Context, c *command.Call, out io.Writer) (*snaparchive.Meta, error) {
	var meta *snaparchive.Meta
	var fault error
	passing, copied := io.Pipe()
	verified := make(chan struct{})
	go func() {
		defer close(verified)
		meta, fault = snaparchive.Read(passing, io.Discard)
		_, _ = io.Copy(io.Discard, passing) // the rest of a damaged archive
	}()

	err := watch.New(c).Await(ctx, "the servers, which send the state", watch.SeeServers, func() error {
		return operator.SaveSnapshot(ctx, c.API, io.MultiWriter(out, copied))
	})

	_ = copied.Close()
	<-verified
	switch {
	case err != nil:
		return nil, err
	case fault != nil:
		return nil, fmt.Errorf("verifying the archive: %w", fault)
	}

	return meta, nil
}

// snapshotRestore checks the whole archive before it sends a byte. It waits until the servers have replaced
// their state.
func snapshotRestore(ctx context.Context, c *command.Call) error {
	keys, err := restoreKeys(c)
	if err != nil {
		return err
	}

	f, meta, err := openVerified(ctx, c)
	if err != nil {
		return err
	}
	defer command.CloseRead(f)
	err = meta.CheckRestorable()
	if err != nil {
		return err
	}
	content, err := f.content()
	if err != nil {
		return err
	}

	before, _ := managementTokens(ctx, c) // of a new cluster there are none
	modeBefore, _ := accessapi.ReadMode(ctx, c.API)
	err = watch.New(c).Await(ctx, "the servers, which replace their state", watch.SeeServers, func() error {
		return operator.RestoreSnapshot(ctx, c.API, content, keys)
	})
	if err != nil {
		return err
	}

	err = c.Report(meta, "Restored the state as of index %d", meta.Index)
	if err != nil {
		return err
	}
	after, err := managementTokens(ctx, c)
	if err != nil {
		fmt.Fprintf(c.Err, "Warning: the management tokens of the archive are not known: %v. "+
			"See: berth acl token list\n", err)
	}
	warnOfTokens(c, before, after)
	mode, err := accessapi.ReadMode(ctx, c.API)
	if err == nil && modeBefore != nil && mode.Mode != modeBefore.Mode {
		fmt.Fprintf(c.Err, "Warning: the archive has brought the mode of access control %q; it was %q. "+
			"See: berth acl mode\n", mode.Mode, modeBefore.Mode)
	}
	return nil
}

// managementTokens returns the tokens that may do everything, by accessor.
func managementTokens(ctx context.Context, c *command.Call) (map[string]*access.Token, error) {
	list, _, err := accessapi.Tokens(ctx, c.API, nil)
	if err != nil {
		return nil, err
	}
	found := map[string]*access.Token{}
	for _, t := range list {
		if t.Type == access.TypeManagement && !t.Expired(time.Now().UnixNano()) {
			found[t.AccessorID] = t
		}
	}
	return found, nil
}

// warnOfTokens names the management tokens that a restored state has and the former one did not have.
// Somebody may have deleted one before the servers remembered deletions, or at another cluster.
func warnOfTokens(c *command.Call, before, after map[string]*access.Token) {
	for _, accessor := range slices.Sorted(maps.Keys(after)) {
		if before[accessor] == nil {
			fmt.Fprintf(c.Err, "Warning: the archive has brought a management token, %q. "+
				"If nobody should have it: berth acl token delete %s\n", after[accessor].Name, accessor)
		}
	}
}

// snapshotFile is the answer of inspect.
type snapshotFile struct {
	*snaparchive.Meta
	Size      int64 // of the file
	StateSize int64
	Encrypted bool `json:",omitempty"` // with age
	RootKeys  []archivedKey
	KeysFault string `json:",omitempty"` // why RootKeys are not known
}

// snapshotInspect reads the archive to its end, so code 0 means that it is complete. A fault of the keys in
// it is shown and does not end the command.
func snapshotInspect(ctx context.Context, c *command.Call) error {
	state := &counter{}
	l := newLoader()
	f, meta, err := openArchive(ctx, c, io.MultiWriter(state, l))
	l.close()
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
		Encrypted: f.encrypted,
	}

	if l.fault != nil {
		file.KeysFault = l.fault.Error()
	} else {
		file.RootKeys = archivedKeys(l.store.Read())
	}

	return c.Show(file, func() error {
		c.Pairs(
			"Index", fmt.Sprint(meta.Index),
			"Term", fmt.Sprint(meta.Term),
			"Region", meta.Region,
			"Written by", meta.Berth,
			"Created", show.Time(meta.Created),
			"Size", show.Size(file.Size),
			"Size of the state", show.Size(file.StateSize),
		)

		if file.Encrypted {
			c.Printf("The file is encrypted with age\n")
		}
		c.Printf("The archive is complete\n")
		if meta.Redacted {
			c.Printf("It is redacted, so that others may have it, and cannot be restored\n")
			return nil
		}
		printKeys(c, &file)
		return nil
	})
}

// counter counts the bytes that are written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

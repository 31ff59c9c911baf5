package operator

import (
	"context"
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"berth/cli/command"
	"berth/cli/watch"
	"berth/internal/agefile"
	"berth/internal/snaparchive"
	"berth/structs"
)

// encryptFlags have the recipients of an archive.
var encryptFlags = []command.Flag{
	{
		Name:  "encrypt-to",
		Kind:  command.Strings,
		Value: "recipient",
		Usage: "Encrypt the file for this recipient of age (age1...). May be repeated",
	},
	{
		Name:  "recipients-file",
		Kind:  command.String,
		Value: "file",
		Usage: "Encrypt the file for the recipients of age in this file, one a line",
	},
}

// IdentityFlag has the key of an encrypted archive.
var IdentityFlag = command.Flag{
	Name:  "identity",
	Kind:  command.String,
	Value: "file",
	Usage: "The identities of age that decrypt the file (age-keygen)",
}

// recipients returns the recipients in encryptFlags.
func recipients(c *command.Call) (to []age.Recipient, err error) {
	if c.Given("recipients-file") {
		to, err = agefile.Recipients(c.String("recipients-file"))
		if err != nil {
			return nil, err
		}
	}

	for _, text := range c.Strings("encrypt-to") {
		r, err := agefile.Recipient("-encrypt-to", text)
		if err != nil {
			return nil, err
		}
		to = append(to, r)
	}

	return to, nil
}

// archive is a file with a saved state, which age may have encrypted.
type archive struct {
	*os.File
	identities []age.Identity
	encrypted  bool
}

// content returns the plain archive, from the present place of the file.
func (a *archive) content() (r io.Reader, err error) {
	r, a.encrypted, err = agefile.Open(a.File, a.identities)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name(), err)
	}
	return r, nil
}

// openArchive opens the archive that the command names, verifies all of it and writes the state in it to
// state. It never seeks, so an archive may come through a pipe.
func openArchive(ctx context.Context, c *command.Call, state io.Writer) (*archive, *snaparchive.Meta, error) {
	a := &archive{}
	var err error
	if c.Given("identity") {
		a.identities, err = agefile.Identities(c.String("identity"))
		if err != nil {
			return nil, nil, err
		}
	}

	name := c.Arg(0)
	a.File, err = os.Open(name)
	if err != nil {
		return nil, nil, structs.Invalidf("%w", err)
	}

	meta, err := readArchive(ctx, c, a, state)
	if err != nil {
		_ = a.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}

	return a, meta, nil
}

// readArchive verifies all of an archive and writes the state in it to state. It says so if that takes long.
func readArchive(
	ctx context.Context, c *command.Call, a *archive, state io.Writer,
) (meta *snaparchive.Meta, err error) {
	err = watch.New(c).AwaitAnswer(ctx, "the end of the archive, which it verifies", func() (err error) {
		var content io.Reader
		content, a.encrypted, err = agefile.Open(interruptible{ctx, a.File}, a.identities)
		if err == nil {
			meta, err = snaparchive.Read(content, state)
		}
		return err
	})

	if ctx.Err() != nil { // no request has begun
		return nil, structs.Timeoutf("interrupted")
	}

	return meta, err
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
func openVerified(ctx context.Context, c *command.Call) (*archive, *snaparchive.Meta, error) {
	a, meta, err := openArchive(ctx, c, io.Discard)
	if err != nil {
		return nil, nil, err
	}

	_, err = a.Seek(0, io.SeekStart)
	if err != nil {
		_ = a.Close()
		return nil, nil, structs.Invalidf("archive %s: not a seekable file: %w", a.Name(), err)
	}

	return a, meta, nil
}

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"filippo.io/age"

	"berth/internal/agefile"
	"berth/internal/process"
	"berth/structs"
)

const (
	// NameVariable is the variable of a program that has the name of the archive.
	NameVariable = "BERTH_SNAPSHOT_NAME"

	maxComplaint = 512 // bytes of the output of a program in an error
)

// archive writes an archive, encrypted if there are recipients.
func (a *Agent) archive(ctx context.Context, w io.Writer, to []age.Recipient) error {
	out, err := agefile.Encrypt(w, to)
	if err == nil {
		err = a.save(ctx, out)
	}
	if err != nil {
		return err // without its end the archive does not decrypt
	}
	return out.Close()
}

// pipe gives an archive to the program. It succeeds when the program has exited with 0 and has got all: a
// program that exits early has stored a part.
func (a *Agent) pipe(ctx context.Context, name string, archive io.Reader) error {
	cmd := a.process(ctx, name)
	said := &process.Output{Most: maxComplaint}
	cmd.Stdout = said
	cmd.Stderr = said

	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	err = cmd.Start()
	if err != nil {
		return fmt.Errorf("program %s: %w", cmd.Path, causeOf(ctx, err))
	}

	_, written := io.Copy(in, archive)
	if written != nil {
		_ = cmd.Cancel() // it must not take a part for the whole
	}
	_ = in.Close() // a program that has exited closed it too
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("program %s: %w", cmd.Path, context.Cause(ctx))
	case ended != nil && !errors.Is(ended, exec.ErrWaitDelay):
		text := structs.Cut(strings.TrimSpace(string(said.Kept)), maxComplaint)
		return fmt.Errorf("program %s: %w: %s", cmd.Path, errors.Join(ended, written), text)
	}
	return written
}

// process returns the program. It has the environment of the server, where credentials of a cloud may be.
func (a *Agent) process(ctx context.Context, name string) *exec.Cmd {
	cmd := process.NewCommand(ctx, a.settings.Command)
	cmd.Env = append(os.Environ(), NameVariable+"="+name)
	return cmd
}

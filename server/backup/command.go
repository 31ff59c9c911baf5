package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"berth/structs"
)

const (
	// NameVariable is the variable of a program that has the name of the archive.
	NameVariable = "BERTH_SNAPSHOT_NAME"

	killDelay    = 5 * time.Second // after which the output of a killed program is not waited for
	maxComplaint = 512             // bytes of the output of a program in an error
)

// archive writes an archive, encrypted if there are recipients.
func (a *Agent) archive(ctx context.Context, w io.Writer, to []age.Recipient) error {
	if len(to) == 0 {
		return a.save(ctx, w)
	}

	out, err := age.Encrypt(w, to...)
	if err != nil {
		return err
	}
	err = a.save(ctx, out)
	if err != nil {
		return err // without its end the archive does not decrypt
	}
	return out.Close()
}

// pipe gives an archive to the program. It succeeds when the program has exited with 0 and has got all: a
// program that exits early has stored a part.
func (a *Agent) pipe(ctx context.Context, name string, archive io.Reader) error {
	cmd := a.process(ctx, name)
	var said bytes.Buffer
	output := &firstBytes{to: &said, left: maxComplaint}
	cmd.Stdout = output
	cmd.Stderr = output

	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	err = cmd.Start()
	if err != nil {
		return err
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
		text := structs.Cut(strings.TrimSpace(said.String()), maxComplaint)
		return fmt.Errorf("program %s: %w: %s", cmd.Path, errors.Join(ended, written), text)
	}
	return written
}

// process returns the program. Its whole process group ends with ctx.
func (a *Agent) process(ctx context.Context, name string) *exec.Cmd {
	argv := a.settings.Command
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)

	// It has the environment of the server, where credentials of a cloud may be.
	cmd.Env = append(os.Environ(), NameVariable+"="+name)
	cmd.Dir = "/" // a working directory in a mount would keep that from being unmounted
	cmd.WaitDelay = killDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// firstBytes passes on the first bytes and drops the others.
type firstBytes struct {
	to   io.Writer
	left int
}

// Write never fails.
func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	_, _ = f.to.Write(p[:n])
	return len(p), nil
}

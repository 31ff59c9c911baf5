package operator

import (
	"context"
	"fmt"
	"io"

	"berth/cli/command"
	"berth/cli/watch"
	"berth/fsm"
	"berth/internal/snaparchive"
	"berth/state"
	"berth/structs"
)

const helpOperatorCheck = `
Loads an archive of "berth operator snapshot save" and verifies the invariants
of the state. Examples of violations are two writers of one volume, a claim
without its volume and a wrong counter. A state that only berth has changed
has none. The command calls no agent and needs as much memory as a server.

The exit code is 0 without a violation, 1 with one, and 2 if the archive
cannot be loaded.`

// checkedState is the answer of check.
type checkedState struct {
	*snaparchive.Meta
	Faults []string
}

// operatorCheck reads an archive and checks its state on this machine. It ends with code 1 if the state
// violates an invariant, and with another one if the archive cannot be read.
func operatorCheck(ctx context.Context, c *command.Call) error {
	f, meta, err := openVerified(ctx, c)
	if err != nil {
		return err
	}
	defer command.CloseRead(f)

	checked := checkedState{Meta: meta}
	err = watch.New(c).AwaitAnswer(ctx, "the check of the state", func() error {
		store, err := loadState(f, meta.Index)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Arg(0), err)
		}

		checked.Faults = state.Check(store.Read())
		return nil
	})
	if err != nil {
		return err
	}

	err = c.Show(checked, func() error {
		for _, fault := range checked.Faults {
			c.Printf("%s\n", fault)
		}

		if len(checked.Faults) == 0 {
			c.Printf("The state of index %d violates no invariant\n", meta.Index)
		}
		return nil
	})

	if err == nil && len(checked.Faults) > 0 {
		err = structs.Internalf("%s: the state of index %d violates invariants",
			c.Arg(0), meta.Index)
	}

	return err
}

// loadState loads the state in an archive that is verified.
func loadState(f *archive, index uint64) (store *state.Store, err error) {
	err = withState(f, func(r io.Reader) error {
		store, err = fsm.LoadAside(r, index)
		return err
	})
	return store, err
}

// withState reads the state in an archive that is verified. It reads the archive a second time, because the
// sums come last and the state must not be used before they are verified.
func withState(f *archive, use func(io.Reader) error) error {
	content, err := f.content()
	if err != nil {
		return err
	}

	out, in := io.Pipe()
	unpacked := make(chan struct{})
	go func() {
		defer close(unpacked)
		_, err := snaparchive.Read(content, in)
		in.CloseWithError(err)
	}()
	err = use(out)
	_ = out.Close() // ends the writer of a state that is damaged
	<-unpacked
	return err
}

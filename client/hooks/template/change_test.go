package template

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// reads a file, and acts without a delay.
func onChange(dest, mode string) *structs.Template {
	return &structs.Template{
		EmbeddedTmpl: `{{ file "local/in" }}`,
		DestPath:     "local/" + dest,
		ChangeMode:   mode,
		Splay:        new(time.Duration(0)),
	}
}

func onSignal(dest, signal string) *structs.Template {
	x := onChange(dest, structs.TemplateSignal)
	x.ChangeSignal = signal
	return x
}

func sending(signal, dest string) string {
	return fmt.Sprintf("Signaling: Task being sent signal %s: the template local/%s has another text", signal, dest)
}

// change starts the templates, changes the file that they read, and returns the acts.
func (fx *fixture) change() *control {
	fx.t.Helper()
	c := newControl(fx)
	c.command = func(_ context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
		c.acts <- fmt.Sprintf("run %q", x.Command)
		_, _ = x.Stdout.Write([]byte(strings.Repeat("out", 1000)))
		_, _ = x.Stderr.Write([]byte("err"))
		return &driver.ExitResult{ExitCode: len(x.Command) - 1}, nil
	}
	fx.MustWrite("web/local/in", "one")
	h, _ := fx.mustUp()
	h.Started(fx.t.Context(), c)
	synctest.Wait()
	if acts := c.done(); len(acts) > 0 {
		fx.t.Errorf("it acted without a change: %q", acts)
	}
	fx.MustWrite("web/local/in", "two")
	time.Sleep(2 * PollInterval)
	synctest.Wait()
	h.Stopped()
	return c
}

func TestChange_ActsAsItsModeSays(t *testing.T) {
	script := onChange("a", structs.TemplateScript)
	script.ChangeScript = &structs.ChangeScript{Command: "${NOMAD_TASK_DIR}/run", Timeout: time.Second}
	failing := onChange("b", structs.TemplateScript)
	failing.ChangeScript = &structs.ChangeScript{
		Command:     "run",
		Args:        []string{"${NOMAD_TASK_DIR}"},
		Timeout:     time.Second,
		FailOnError: true,
	}
	failed := `the script run failed: exit code 1; it wrote "` +
		strings.Repeat("out", 200)[:structs.MaxReason] + `"`
	for _, c := range []struct {
		list   []*structs.Template
		acts   []string
		events []string
	}{
		{[]*structs.Template{onChange("a", structs.TemplateNoop)}, nil, nil},
		{[]*structs.Template{onSignal("a", "SIGHUP"), onSignal("b", "SIGUSR1"), onSignal("c", "SIGHUP")},
			[]string{"signal SIGHUP", "signal SIGUSR1"},
			[]string{sending("SIGHUP", "a"), sending("SIGUSR1", "b")}},
		{[]*structs.Template{onSignal("a", "SIGUSR2")}, []string{"signal SIGUSR2"},
			[]string{sending("SIGUSR2", "a"), "Template: local/a: failed to send SIGUSR2: no such process"}},
		{[]*structs.Template{onSignal("a", "SIGHUP"), onChange("b", structs.TemplateRestart), script},
			[]string{"restart: the template local/b has another text"}, nil},
		{[]*structs.Template{script}, []string{`run ["/local/run"]`},
			[]string{"Template: local/a: another text: ran /local/run"}},
		{[]*structs.Template{failing},
			[]string{`run ["run" "/local"]`, "fail: Task hook failed: " + failed},
			[]string{"Template: local/b: " + failed}},
	} {
		synctest.Test(t, func(t *testing.T) {
			fx := newFixture(t, c.list...)
			acts := fx.change().done()
			if !slices.Equal(acts, c.acts) || !slices.Equal(fx.said(), c.events) {
				t.Errorf("got %q and %q, want %q and %q", acts, fx.said(), c.acts, c.events)
			}
			for _, x := range c.list {
				fx.CheckFile("web/"+x.DestPath, "two")
			}
		})
	}
}

func TestChange_EndsAScriptAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := onChange("a", structs.TemplateScript)
		x.ChangeScript = &structs.ChangeScript{Command: "run", Timeout: time.Second}
		fx := newFixture(t, x)
		fx.MustWrite("web/local/in", "one")
		h, _ := fx.mustUp()
		c := newControl(fx)
		c.command = func(ctx context.Context, _ *driver.ExecConfig) (*driver.ExitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		h.Started(t.Context(), c)
		synctest.Wait()
		fx.MustWrite("web/local/in", "two")
		time.Sleep(PollInterval + 2*time.Second)
		synctest.Wait()
		h.Stopped()
		want := []string{"Template: local/a: the script run failed: it took more than 1s"}
		if !slices.Equal(fx.said(), want) || len(c.done()) > 0 {
			t.Errorf("got %q", fx.said())
		}
	})
}

func TestChange_WaitsForARandomPartOfTheSplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := onSignal("a", "SIGHUP")
		x.Splay = new(time.Hour)
		fx := newFixture(t, x)
		fx.MustWrite("web/local/in", "one")
		h, _ := fx.mustUp()
		c := newControl(fx)
		h.Started(t.Context(), c)
		synctest.Wait()
		fx.MustWrite("web/local/in", "two")
		begin := time.Now()
		<-c.acts
		took := time.Since(begin)
		h.Stopped()
		if took <= PollInterval || took > time.Hour+PollInterval {
			t.Errorf("it took %s", took)
		}
	})
}

// A value that makes no text leaves the running task and its file alone.
func TestChange_KeepsTheTextAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := onSignal("a", "SIGHUP")
		x.EmbeddedTmpl = `{{ with parseJSON (file "local/in") }}{{ .a }}{{ end }}`
		fx := newFixture(t, x)
		fx.MustWrite("web/local/in", `{"a": 1}`)
		h, _ := fx.mustUp()
		c := newControl(fx)
		h.Started(t.Context(), c)
		synctest.Wait()
		defer h.Stopped()
		await := func(text string) []string {
			fx.MustWrite("web/local/in", text)
			time.Sleep(5 * PollInterval)
			synctest.Wait()
			return c.done()
		}
		for _, text := range []string{"{", ""} {
			if acts := await(text); text == "{" && len(acts) > 0 {
				t.Errorf("it acted on %q: %q", text, acts)
			}
		}
		err := os.Remove(fx.Path("web/local/in"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * PollInterval)
		synctest.Wait()
		fx.CheckFile("web/local/a", "")
		said := fx.said()
		for i, want := range []string{"keeping the last text: ", "sent signal SIGHUP", "there is no file"} {
			if len(said) != 3 || !strings.Contains(said[i], want) {
				t.Errorf("event %d: got %q, want %q", i, said, want)
			}
		}
		if acts := await(`{"a": 2}`); len(acts) != 1 {
			t.Errorf("got %q", acts)
		}
		fx.CheckFile("web/local/a", "2")
	})
}

// A text whose values cannot change needs no goroutine.
func TestStarted_EndsIfNothingCanChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, &structs.Template{EmbeddedTmpl: `{{ env "PORT" }}`, DestPath: "local/a"})
		h, _ := fx.mustUp()
		h.Started(t.Context(), newControl(fx))
		h.Wait()
		h.Stopped()
	})
}

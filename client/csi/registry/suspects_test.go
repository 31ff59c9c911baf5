package registry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/csi"
	"berth/structs"
)

// lostError is that of a call whose connection ended before its answer.
type lostError struct{ error }

func (lostError) Lost() bool { return true }

// unsentError is that of a call without a connection.
type unsentError struct{ error }

func (unsentError) Unsent() bool { return true }

var (
	errLost     = lostError{errors.New("no answer")}
	errUnsent   = unsentError{errors.New("nothing listens")}
	errAnswered = errors.New("rejected")
)

// plugin is one half with its calls.
type plugin struct {
	t     *testing.T
	calls *Suspects
	PluginHalf
	*SuspectGuard
}

func newPlugin(t *testing.T) *plugin {
	p := &plugin{t: t, calls: NewSuspects(), PluginHalf: PluginHalf{
		ID:      "ebs",
		Half:    structs.CSIKindController,
		Socket:  "/s",
		Version: PluginVersion{"ebs", "1", 1},
	}}
	p.SuspectGuard = p.calls.Open(p.PluginHalf)
	return p
}

// call makes a call that ends with err.
func (p *plugin) call(rpc, volume string, err error) error {
	return p.Do(p.t.Context(), rpc, volume, func() error { return err })
}

// isStopped reports whether a call is not made.
func (p *plugin) isStopped(rpc, volume string) bool {
	made := false
	err := p.Do(p.t.Context(), rpc, volume, func() error { made = true; return nil })
	if stopped := structs.CodeOf(err) == structs.CSICodeEndsPlugin; stopped == made {
		p.t.Errorf("%s %q was made: %t, and the error is %v", rpc, volume, made, err)
	}
	return !made
}

// endBy ends the process by a call.
func (p *plugin) endBy(rpc, volume string) {
	if err := p.call(rpc, volume, errLost); !csi.Lost(err) {
		p.t.Errorf("%s %q: %v", rpc, volume, err)
	}
	p.calls.Ended(p.t.Context(), p.PluginHalf.Socket, true)
}

func TestSuspects_StopACallThatEndedThePluginTwice(t *testing.T) {
	p := newPlugin(t)
	p.endBy("CreateVolume", "name:a")
	p.endBy("CreateVolume", "name:a")
	err := p.call("CreateVolume", "name:a", nil)
	if !structs.IsKind(err, structs.KindPrecondition) || !p.isStopped("CreateVolume", "name:a") {
		t.Errorf("the call is repeated: %v", err)
	}
	for volume, rpc := range map[string]string{
		"name:b": "CreateVolume", "name:a": "DeleteVolume", "": "ListVolumes",
	} {
		if p.isStopped(rpc, volume) {
			t.Errorf("%s %q is not called", rpc, volume)
		}
	}

	report := p.Stopped()
	if len(report) != 1 || report[0].RPC != "CreateVolume" || report[0].Volume != "name:a" ||
		report[0].Time == 0 {
		t.Errorf("got the report %+v", report)
	}
	node := p.PluginHalf
	node.Half = structs.CSIKindNode
	if other := p.calls.Open(node).Stopped(); len(other) != 0 {
		t.Errorf("the other half reports %+v", other)
	}
}

func TestSuspects_NeedTwoEndsOfTheProcessByItself(t *testing.T) {
	ours := func(p *plugin) {
		_ = p.call("CreateVolume", "v", errLost)
		p.calls.Ended(t.Context(), p.PluginHalf.Socket, false)
	}
	for name, second := range map[string]func(*plugin){
		"no second end":          func(*plugin) {},
		"berth stopped it":       ours,
		"berth stopped it twice": func(p *plugin) { ours(p); ours(p) },
		"the end of another":     func(p *plugin) { p.endBy("CreateVolume", "w") },
		"it outlived the loss":   outlive,
		"an answer": func(p *plugin) {
			_ = p.call("CreateVolume", "v", errAnswered)
			p.endBy("CreateVolume", "v")
		},
		"another process": func(p *plugin) {
			_ = p.call("CreateVolume", "v", errLost)
			p.calls.Ended(t.Context(), "/t", true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t)
			p.endBy("CreateVolume", "v")
			second(p)
			if p.isStopped("CreateVolume", "v") {
				t.Error("the call is not repeated")
			}
		})
	}
}

// outlive loses the connection, and lets the process answer again before it ends.
func outlive(p *plugin) {
	_ = p.call("CreateVolume", "v", errLost)
	_ = p.call("GetCapacity", "", nil)
	p.calls.Ended(p.t.Context(), p.PluginHalf.Socket, true)
}

func TestSuspects_AreForgotten(t *testing.T) {
	for name, forget := range map[string]func(*plugin){
		"another driver":    func(p *plugin) { p.Version.Driver = "2" },
		"another job":       func(p *plugin) { p.Version.Job++ },
		"an operator's act": func(p *plugin) { p.calls.Allow("ebs", []string{"name:v", "v"}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t)
			p.endBy("CreateVolume", "v")
			p.endBy("CreateVolume", "v")
			p.calls.Allow("nfs", []string{"v"})
			p.calls.Allow("ebs", []string{"w", ""})
			if !p.isStopped("CreateVolume", "v") {
				t.Error("the call is repeated")
			}

			forget(p)
			p.SuspectGuard.Close()
			p.SuspectGuard = p.calls.Open(p.PluginHalf)
			p.endBy("CreateVolume", "v")
			if p.isStopped("CreateVolume", "v") {
				t.Error("one end stops the call")
			}
		})
	}
}

func TestSuspects_AListIsNotAllowedWithAVolume(t *testing.T) {
	p := newPlugin(t)
	p.endBy("ListVolumes", "")
	p.endBy("ListVolumes", "")
	p.calls.Allow("ebs", []string{""})
	if !p.isStopped("ListVolumes", "") {
		t.Error("the list is repeated")
	}
}

// Two calls are in flight at the first end, so either may be the cause. An innocent one must not be stopped
// because it was there twice.
func TestSuspects_RunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		type answer chan error
		arrived := map[string]answer{}
		results := map[string]chan error{}
		begin := func(volume string) {
			at, result := make(answer), make(chan error, 1)
			results[volume] = result
			go func() {
				result <- p.Do(t.Context(), "CreateVolume", volume, func() error {
					arrived[volume] = at
					defer delete(arrived, volume)
					return <-at
				})
			}()
			synctest.Wait()
		}
		end := func(volume string, err error) {
			arrived[volume] <- err
			if got := <-results[volume]; got != err {
				t.Errorf("%s: got %v, want %v", volume, got, err)
			}
			synctest.Wait()
		}

		begin("good")
		begin("bad")
		if len(arrived) != 2 {
			t.Fatalf("%d calls are in flight", len(arrived))
		}
		end("good", errLost)
		end("bad", errLost)
		p.calls.Ended(t.Context(), "/s", true)

		begin("good")
		begin("bad")
		begin("other")
		if len(arrived) != 1 || arrived["good"] == nil {
			t.Fatalf("a suspect runs beside others: %v", arrived)
		}
		end("good", nil)
		if len(arrived) != 1 || arrived["bad"] == nil {
			t.Fatalf("a suspect runs beside others: %v", arrived)
		}
		end("bad", errLost)
		end("other", errUnsent)
		p.calls.Ended(t.Context(), "/s", true)
		if p.isStopped("CreateVolume", "good") || p.isStopped("CreateVolume", "other") {
			t.Error("an innocent call is stopped")
		}
		if !p.isStopped("CreateVolume", "bad") {
			t.Error("the cause is called again")
		}
	})
}

// A process can end before the client has noticed the loss of its connection.
func TestSuspects_TheEndWaitsForTheLostCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		for range 2 {
			lost := make(chan struct{})
			go func() {
				_ = p.Do(t.Context(), "CreateVolume", "v", func() error { <-lost; return errLost })
			}()
			synctest.Wait()
			time.AfterFunc(time.Second, func() { close(lost) })
			p.calls.Ended(t.Context(), "/s", true)
		}
		if !p.isStopped("CreateVolume", "v") {
			t.Error("the call is repeated")
		}

		// A child may keep the connection open.
		hung, begin := make(chan struct{}), time.Now()
		go func() {
			_ = p.Do(t.Context(), "CreateVolume", "w", func() error { <-hung; return errLost })
		}()
		synctest.Wait()
		p.calls.Ended(t.Context(), "/s", true)
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("the end waits for %s", took)
		}
		close(hung)
	})
}

// The connection of a call outlived its process, for example. The next process ended by another call.
func TestSuspects_ALossBesideOthersIsNotTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		late, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_ = p.Do(t.Context(), "ListVolumes", "", func() error { <-late; return errLost })
		}()
		synctest.Wait()
		p.endBy("ListVolumes", "")
		close(late)
		<-ended
		p.calls.Ended(t.Context(), "/s", true)
		if p.isStopped("ListVolumes", "") {
			t.Error("the call is stopped although it was never alone")
		}
	})
}

// A repeat may begin to wait before its call is a suspect.
func TestSuspects_ARepeatThatWaitsForTheEndRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		first, second := make(chan struct{}), make(chan struct{})
		runs := map[string]bool{}
		call := func(volume string, until chan struct{}, err error) {
			go func() {
				_ = p.Do(t.Context(), "CreateVolume", volume, func() error {
					runs[volume] = true
					defer delete(runs, volume)
					<-until
					return err
				})
			}()
			synctest.Wait()
		}
		call("v", first, errLost)
		go p.calls.Ended(t.Context(), "/s", true)
		synctest.Wait()
		call("v", second, nil)
		close(first)
		synctest.Wait()
		call("w", second, nil)
		if !runs["v"] || runs["w"] {
			t.Errorf("these run: %v", runs)
		}
		close(second)
	})
}

func TestSuspects_TheWaitOfACallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		p.endBy("CreateVolume", "v")
		hung := make(chan struct{})
		go func() {
			_ = p.Do(t.Context(), "CreateVolume", "v", func() error { <-hung; return nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := p.Do(ctx, "CreateVolume", "w", func() error {
			t.Error("it runs beside a suspect")
			return nil
		})
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v", err)
		}
		// The health of the plugin is known meanwhile.
		if err := p.call("Probe", "", errAnswered); err != errAnswered {
			t.Errorf("got %v", err)
		}
		close(hung)
	})
}

// A call of the process that has ended already is no answer.
func TestSuspects_ACallWithoutAConnectionClearsNone(t *testing.T) {
	p := newPlugin(t)
	p.endBy("CreateVolume", "v")
	_ = p.call("CreateVolume", "v", errUnsent)
	p.endBy("CreateVolume", "v")
	if !p.isStopped("CreateVolume", "v") {
		t.Error("the call is repeated")
	}
}

func TestSuspects_HaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t)
		for i := range maxEndings + 1 {
			volume := fmt.Sprint("v", i)
			p.endBy("NodePublishVolume", volume)
			p.endBy("NodePublishVolume", volume)
			time.Sleep(time.Second) // of the clock of the test
		}
		if len(p.calls.records) != maxEndings || p.isStopped("NodePublishVolume", "v0") ||
			!p.isStopped("NodePublishVolume", "v1") {
			t.Errorf("%d records", len(p.calls.records))
		}
		if n := len(p.Stopped()); n != structs.MaxEndingCalls {
			t.Errorf("%d calls are reported", n)
		}
		p.SuspectGuard.Close()
		if len(p.calls.processes) != 0 {
			t.Error("a process without clients is left")
		}
	})
}

package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"berth/client/csi/registry"
	"berth/client/store"
	"berth/csi"
	"berth/structs"
)

// A call is not cancelled when its caller stops waiting: a plugin that has received a call executes it,
// whether or not a caller waits (CSI spec, "Timeouts"). So a call continues until the plugin answers, its
// process ends or LateWait has passed, and until then it is the only one for its volume. A record of the call
// exists meanwhile, because the plugin outlives the agent. After a restart of the agent the opposite call is
// made once the same instance of the plugin has answered a repeat of the call, or once LateWait has passed.

// Call is one call of a plugin for a volume.
type Call struct {
	PluginID string
	Instance string // the allocation that runs the instance of the plugin that is called
	Volume   string // the plugin's volume_id or, while that is not known, "name:" and its name
	RPC      string
	Others   []string `codec:"-"` // further volumes that have no other call in flight meanwhile
	Where    string   // the object of the RPC: a path of the volume, or the plugin's name of a node
	// Timeout ends the call, and the wait for it. 0: the caller waits CallTimeout, and the call has LateWait.
	Timeout time.Duration `codec:"-"`
	// Before are changes of records that the call needs. They are written with its own record. If the call is
	// not made, they are dropped: they must tell only of this call and of what its caller does anew.
	Before []store.Change `codec:"-"`
	// After, if not nil, returns changes of records after a success, which are written in the transaction
	// that drops the call's own record. It is not called if the caller has stopped waiting.
	After func() []store.Change `codec:"-"`
}

func (c Call) String() string {
	return fmt.Sprintf("plugin %q: %s", c.PluginID, c.RPC)
}

// callRecord is on disk while a call is, or may still be, carried out.
type callRecord struct {
	Call
	Since  int64 // UnixNano
	BootID string
}

var callTable = store.NewTable[callRecord]("csi_calls")

// key includes the time: a repeat has its own record until it is answered.
func (r *callRecord) key() string {
	return store.Key(r.PluginID, r.Volume, r.RPC,
		r.Where, strconv.FormatInt(r.Since, 10))
}

// undoes names the calls that must not overtake each other for the same object. A late detach or delete is
// not even repeated: the call after its answer may go through another node, which does not know of it.
var undoes = map[string][]string{
	"NodeStageVolume":           {"NodeUnstageVolume"},
	"NodeUnstageVolume":         {"NodeStageVolume"},
	"NodePublishVolume":         {"NodeUnpublishVolume"},
	"NodeUnpublishVolume":       {"NodePublishVolume"},
	"ControllerPublishVolume":   {"ControllerUnpublishVolume"},
	"ControllerUnpublishVolume": {"ControllerPublishVolume", "ControllerUnpublishVolume"},
	"DeleteVolume":              {"DeleteVolume"},
}

// Exclusive makes a call of a plugin as the only one in flight for its volume. If ctx ends first, the error
// is a timeout, and the call continues. Unavailable without a code means that the call was not made.
func (m *Manager) Exclusive(ctx context.Context, c Call, fn func(ctx context.Context) error) error {
	_, err := Do(ctx, m, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, fn(ctx)
	})
	return err
}

// Do is Exclusive for a call with an answer.
func Do[T any](
	ctx context.Context, m *Manager, c Call,
	fn func(ctx context.Context) (T, error),
) (T, error) {
	var none T
	limit := time.Now().Add(m.cfg.limitOf(c))
	// All instances of a plugin, of both halves, share this lock of the volume.
	keys := lockKeys(c.PluginID, append([]string{c.Volume}, c.Others...)...)
	release, err := acquireLocks(ctx, &m.calls, keys, c.String())
	if err != nil {
		return none, err
	}

	rec, err := m.beginCall(c)
	if err != nil {
		release()
		return none, err
	}

	// ended has space for the result, which a caller that has stopped waiting does not read.
	f := &inFlight[T]{rec: rec, ended: make(chan callResult[T], 1)}
	// The end of the caller's ctx does not reach the call, see the top of this file.
	calling, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	go func() {
		defer m.inFlight.End(c.Instance)
		defer release()
		defer cancel()
		defer context.AfterFunc(m.life, cancel)()
		answer, err := fn(calling)
		var after []store.Change
		// After edits the state of the caller, which goes on after a timeout.
		if f.settled.CompareAndSwap(false, true) && err == nil && c.After != nil {
			after = c.After()
		}

		failed := m.endCall(rec, err, calling.Err() == nil, after)
		// The changes are a part of the success: without them on disk, the caller has to repeat the step.
		if len(after) > 0 {
			err = failed
		}

		f.ended <- callResult[T]{answer, err}
	}()

	// The caller gets its answer within this time. The call itself has until limit.
	waiting, stop := context.WithTimeout(ctx, m.cfg.waitOf(c))
	defer stop()
	r := f.wait(waiting)
	return r.answer, r.err
}

// callResult is the end of a call.
type callResult[T any] struct {
	answer T
	err    error
}

// inFlight is a call that has begun. It goes on when its caller stops waiting.
type inFlight[T any] struct {
	rec     *callRecord
	settled atomic.Bool // by the end of the call, or by a caller that stops waiting
	ended   chan callResult[T]
}

// wait returns the end of the call, or a timeout if ctx ends before it.
func (f *inFlight[T]) wait(ctx context.Context) callResult[T] {
	select {
	case r := <-f.ended:
		return r
	case <-ctx.Done():
		if !f.settled.CompareAndSwap(false, true) { // answered, and its record is being written
			return <-f.ended
		}
		return callResult[T]{err: structs.Timeoutf("%s was called at %s and is not answered yet: %w",
			f.rec.Call, clockText(f.rec.Since), ctx.Err())}
	}
}

// callLimit is the time after which a call without an answer is cancelled. It begins when the call is
// requested, because the servers count the time in which it may take effect from then on
// (structs.CallSettles).
func (c Config) callLimit() time.Duration {
	return max(c.CallTimeout, c.LateWait)
}

// waitOf returns the time for which the caller waits for the answer to a call.
func (c Config) waitOf(call Call) time.Duration {
	if call.Timeout <= 0 {
		return c.CallTimeout
	}
	return call.Timeout
}

// limitOf returns the time after which a call is cancelled. A longer timeout than the one of all calls has no
// effect.
func (c Config) limitOf(call Call) time.Duration {
	if call.Timeout <= 0 {
		return c.callLimit()
	}
	return min(call.Timeout, c.callLimit())
}

// ErrUnanswered is why a call must wait for an earlier one.
var ErrUnanswered = errors.New("was not answered, and may still be carried out")

// beginCall records that a call is made, unless one that it must not overtake may still be carried out.
func (m *Manager) beginCall(c Call) (*callRecord, error) {
	late, err := m.lateCalls(c.PluginID, c.Volume)
	if err != nil {
		return nil, err
	}

	for _, l := range late {
		if l.Where == c.Where &&
			slices.Contains(undoes[l.RPC], c.RPC) {
			return nil, structs.Unavailablef(
				"%s is not called before %s: %s was called at %s, %w",
				c, clockText(l.Since+int64(m.cfg.LateWait)),
				l.RPC, clockText(l.Since), ErrUnanswered)
		}
	}

	err = m.inFlight.Begin(c.Instance, func() bool { return m.serves(c) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}

	rec := &callRecord{
		Call:   c,
		Since:  time.Now().UnixNano(),
		BootID: m.volumes.boot,
	}

	// The record and the changes that the call needs are one write: a crash leaves no step without its
	// record.
	err = m.cfg.DB.Commit(append(c.Before, callTable.Change(rec.key(), rec))...)
	if err != nil {
		// Do starts no goroutine for this call.
		m.inFlight.End(c.Instance)
		return nil, fmt.Errorf("recording %s: %w", c, err)
	}

	return rec, nil
}

// serves reports whether the instance that a call is for is registered, for one of its halves.
func (m *Manager) serves(c Call) bool {
	for _, kind := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		k := registry.Key{Kind: kind, ID: c.PluginID}
		if m.cfg.Registry.Registered(k, c.Instance) {
			return true
		}
	}
	return false
}

// AwaitCalls waits until no call for a volume is in flight at the instance that an allocation runs, or until
// ctx ends. It waits no longer than the callers do. After the instance was deregistered, no other call
// begins. A plugin that is killed during a call leaves the outcome unknown: the servers then make no other
// call for the volume for structs.CallSettles, unless the plugin runs here again.
func (v *Volumes) AwaitCalls(ctx context.Context, allocID string) {
	ctx, cancel := context.WithTimeout(ctx, v.m.cfg.CallTimeout)
	defer cancel()
	left := v.m.inFlight.Await(ctx, allocID)
	if left > 0 {
		v.logger.Warn("plugin is stopped during calls, whose outcome stays unknown",
			"alloc_id", allocID, "calls", left)
	}
}

// PluginEnded tells that the process behind a socket has ended. byItself: neither berth nor an operator has
// stopped it, so one of the calls that it has not answered may have ended it.
func (v *Volumes) PluginEnded(ctx context.Context, socket string, byItself bool) {
	v.m.suspects.Ended(ctx, socket, byItself)
}

// endCalls prevents new calls. It waits up to StopWait for the calls in flight, because the next agent waits
// for each call without an answer. Then it cancels the rest.
func (m *Manager) endCalls() {
	m.inFlight.Close()
	late := time.AfterFunc(m.cfg.StopWait, m.endLife)
	m.inFlight.AwaitAll(context.Background())
	late.Stop()
	m.endLife()
}

// endCall drops the record of a call that has an answer, or whose plugin has ended, and writes the changes
// with that. A call that was cancelled here has no answer.
func (m *Manager) endCall(rec *callRecord, err error, inTime bool, after []store.Change) error {
	code := csi.Code(err)
	// A call that was not sent has no effect, whatever its code.
	if !csi.Unsent(err) &&
		(code == "Canceled" || code == "DeadlineExceeded" && !inTime) {
		m.logger.Warn("plugin call ended without an answer and may still take effect",
			"plugin_id", rec.PluginID, "rpc", rec.RPC,
			"external_id", rec.Volume, "since", clockText(rec.Since),
			"error", err)
		return nil
	}

	err = m.dropCalls(rec, err == nil, after)
	if err != nil {
		err = fmt.Errorf("recording the end of %s: %w", rec.Call, err)
		m.logger.Warn("failed to drop the record of a call that has ended", "error", err)
	}
	return err
}

// dropCalls drops the record of an answered call and writes the changes. A success also settles the calls
// that it repeated: an instance resumes the earlier call, or rejects the repeat while the earlier call is in
// progress (CSI spec, "Timeouts", "Concurrency"). Another instance does not know the earlier call.
func (m *Manager) dropCalls(rec *callRecord, succeeded bool, after []store.Change) error {
	if !succeeded {
		// A failure says nothing about the calls that this one repeats.
		return callTable.Delete(m.cfg.DB, rec.key())
	}

	// All repeats of the call have the key without its time.
	same := store.Key(rec.PluginID, rec.Volume, rec.RPC, rec.Where, "")
	records, err := callTable.All(m.cfg.DB, same)
	if err != nil {
		return err
	}

	for _, r := range records {
		if r.Value.Instance == rec.Instance {
			after = append(after, callTable.Removal(r.Key))
		}
	}
	return m.cfg.DB.Commit(after...)
}

// lateCalls returns the calls for a volume that may still be carried out. It drops the records of others.
func (m *Manager) lateCalls(pluginID, volume string) ([]*callRecord, error) {
	records, err := callTable.All(m.cfg.DB, store.Key(pluginID, volume, ""))
	if err != nil {
		return nil, err
	}

	var late []*callRecord
	for _, r := range records {
		// The plugin's process, and with it the call, has ended with an earlier boot of the kernel.
		rec := r.Value
		now := time.Now()
		until := m.seen.Time(rec.Since, now).Add(m.cfg.LateWait) // the call was made before its record was seen
		if rec.BootID == m.volumes.boot && now.Before(until) {
			late = append(late, rec)
			continue
		}

		err := callTable.Delete(m.cfg.DB, r.Key)
		if err != nil {
			return nil, err
		}
	}

	return late, nil
}

package upkeep

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// notFound is the answer of a plugin that has no such volume.
var notFound = &structs.Error{Kind: structs.KindNotFound, Code: codeNotFound, Text: "gone"}

// teller is a plugin that tells the health of one volume and of its storage.
type teller struct {
	f      *pollerFixture
	calls  int
	answer *storage.VolumeCondition
	err    error
}

// health makes the only volume of the fixture one that the node has tried to mount.
func (f *pollerFixture) health() *teller {
	f.plugin.Lock()
	defer f.plugin.Unlock()
	t := &teller{f: f, answer: &storage.VolumeCondition{Abnormal: true, Message: "DEGRADED Slow"}}
	f.volumes = []PolledVolume{{
		Key:       storage.UsageKey{VolumeID: "v"},
		Attempted: true,
		Health: func(context.Context) (*storage.VolumeCondition, error) {
			f.plugin.Lock()
			defer f.plugin.Unlock()
			t.calls++
			return t.answer, t.err
		},
	}}
	return t
}

// set sets the next answers, and returns the number of calls before.
func (t *teller) set(c *storage.VolumeCondition, err error) (calls int) {
	t.f.plugin.Lock()
	defer t.f.plugin.Unlock()
	t.answer = c
	t.err = err
	return t.calls
}

// condition returns what is known of the volume.
func (f *pollerFixture) condition(t *testing.T) *storage.VolumeCondition {
	t.Helper()
	all := f.Of(nil)
	if len(all) != 1 {
		t.Fatalf("%d volumes", len(all))
	}
	return all[0].Condition
}

// TestDuty_K36_AVolumeThatIsNotFoundIsAskedForEverMoreSeldom: and never after it has left the records.
func TestDuty_K36_AVolumeThatIsNotFoundIsAskedForEverMoreSeldom(t *testing.T) {
	runPoller(t, 1, func(f *pollerFixture) {
		f.plugin.Lock()
		f.err = notFound
		f.plugin.Unlock()
		f.pass(time.Hour)
		if n := f.calledTimes("0"); n < 5 || n > 12 {
			t.Errorf("%d calls in an hour", n)
		}
		f.plugin.Lock()
		f.err = nil
		f.plugin.Unlock()
		f.pass(10 * time.Minute)
		before := f.calledTimes("0")
		f.pass(10 * time.Minute)
		if n := f.calledTimes("0") - before; n < 8 {
			t.Errorf("%d calls in ten minutes after it was found", n)
		}

		f.plugin.Lock()
		f.volumes = nil
		f.plugin.Unlock()
		before = f.calledTimes("0")
		f.pass(time.Hour)
		if n := f.calledTimes("0") - before; n != 0 {
			t.Errorf("%d calls for a volume without a record", n)
		}
	})
}

// TestDuty_K37_TheHealthOfAnAttemptedVolumeIsAskedFor: its use is not. Neither an error nor NOT_FOUND is a
// recovery, and NOT_FOUND makes the calls ever more seldom.
func TestDuty_K37_TheHealthOfAnAttemptedVolumeIsAskedFor(t *testing.T) {
	runPoller(t, 0, func(f *pollerFixture) {
		told := f.health()
		f.pass(2 * time.Minute)
		if c := f.condition(t); c == nil || !c.Abnormal || f.Of(nil)[0].Time != 0 || f.Of(nil)[0].Error != "" {
			t.Errorf("got %+v, %+v", f.Of(nil)[0], c)
		}
		before := told.set(nil, errors.New("no answer"))
		f.pass(time.Hour)
		after := told.set(nil, notFound)
		// At most 66 seconds, and the time to the next look at the list, are between two calls.
		if c := f.condition(t); c == nil || !c.Abnormal || after-before < 50 {
			t.Errorf("after an error: %+v, %d calls", c, after-before)
		}
		f.pass(time.Hour)
		before = after
		after = told.set(&storage.VolumeCondition{}, nil)
		if c := f.condition(t); c == nil || !c.Abnormal || after-before > 12 {
			t.Errorf("after NOT_FOUND: %+v, %d calls", c, after-before)
		}
		f.pass(10 * time.Minute)
		if c := f.condition(t); c == nil || c.Abnormal {
			t.Errorf("after its recovery: %+v", c)
		}
	})
}

// TestPoller_LearnsTheHealthOfAVolumeWhoseUseHangs: the health has a part of the time of the call.
func TestPoller_LearnsTheHealthOfAVolumeWhoseUseHangs(t *testing.T) {
	for name, hangs := range map[string]bool{"the use": true, "the health": false} {
		t.Run(name, func(t *testing.T) {
			runPoller(t, 1, func(f *pollerFixture) {
				f.setHang(hangs)
				f.plugin.Lock()
				f.volumes[0].Health = func(ctx context.Context) (*storage.VolumeCondition, error) {
					if !hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return &storage.VolumeCondition{Message: "by the call for the health"}, nil
				}
				f.plugin.Unlock()
				f.pass(5 * time.Minute)
				u := f.Of(nil)[0]
				if hangs && (u.Condition == nil || u.Condition.Message == "" || u.Error == "") {
					t.Errorf("got %+v, %+v", u, u.Condition)
				}
				if !hangs && (u.Bytes == nil || u.Condition != nil || f.calledTimes("0") < 3) {
					t.Errorf("got %+v, %+v", u, u.Condition)
				}
			})
		})
	}
}

// TestDuty_K38_TheStorageIsAskedForWithinTheBudget: a plugin that hangs is asked ever more seldom, and takes
// no turn from the volumes.
func TestDuty_K38_TheStorageIsAskedForWithinTheBudget(t *testing.T) {
	runPoller(t, 20, func(f *pollerFixture) {
		calls := map[string]int{}
		storage := func(id string, hangs bool) Storage {
			return Storage{id, func(ctx context.Context) (*structs.CSIStorageHealth, error) {
				f.plugin.Lock()
				calls[id]++
				f.plugin.Unlock()
				if hangs {
					<-ctx.Done()
				}
				return nil, ctx.Err()
			}}
		}
		f.plugin.Lock()
		f.storages = []Storage{storage("well", false), storage("hung", true)}
		f.plugin.Unlock()
		f.pass(time.Hour)
		f.plugin.Lock()
		well := calls["well"]
		hung := calls["hung"]
		f.storages = nil
		f.plugin.Unlock()
		if well < 50 || well > 70 || hung < 5 || hung > 12 || f.calledTimes("7") < 50 {
			t.Errorf("%d and %d calls, %d for a volume", well, hung, f.calledTimes("7"))
		}

		f.pass(time.Hour)
		f.plugin.Lock()
		defer f.plugin.Unlock()
		if calls["well"] > well+1 || len(f.Poller.storages) != 0 {
			t.Errorf("%d calls for a plugin that is gone, %d known", calls["well"]-well, len(f.Poller.storages))
		}
	})
}

package volumes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"berth/csi/csitest"
	"berth/internal/backoff"
	"berth/structs"
	"berth/test/kit"
)

// A claim that waited long for its plugin is verified once more right before the plugin call, because an
// operator may have released it meanwhile.
func TestUp_ConfirmsTheClaimBeforeThePluginCall(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	asked, gone := 0, structs.Errorf(structs.KindNotFound, "the claim is gone")
	u.Confirm = func(context.Context) error { asked++; return gone }
	if _, err := r.v.Up(r.ctx(), u, nil); !errors.Is(err, gone) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if got := shortCalls(p); got != "" {
		t.Errorf("called without a claim: %s", got)
	}
	r.down(u)

	u.Confirm = func(context.Context) error { asked++; return nil }
	r.up(u)
	u.Confirm = func(context.Context) error { t.Error("Confirm was called for a published volume"); return nil }
	r.up(u)
	r.down(u)
	r.clean(p, "ext-data")
}

// Each try confirms, not only the first.
func TestUp_ConfirmsInEveryTry(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	p.Fail("NodeStageVolume", csitest.Error("Unavailable", "away"))
	u := use("data", "a1")
	asked := 0
	u.Confirm = func(context.Context) error {
		asked++
		if asked == 2 {
			return structs.Errorf(structs.KindNotFound, "the claim is gone")
		}
		return nil
	}
	_, err := r.v.Up(r.ctx(), u, nil)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("got %v", err)
	}
	if n := p.Count("NodePublishVolume"); n != 0 || asked != 2 {
		t.Errorf("published %d times, asked %d times", n, asked)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

// A cut may end while the claim is being confirmed. The pause after that ends at once.
func TestUp_ConfirmsAgainAtTheEndOfACut(t *testing.T) {
	r := newFixture(t)
	r.restartWithPause(time.Hour)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	var back backoff.Recovery
	u.ServersBack = &back
	asked := 0
	u.Confirm = func(context.Context) error {
		asked++
		if asked > 1 {
			return nil
		}
		back.Announce()
		return structs.Unavailablef("no route")
	}
	r.up(u)
	r.down(u)
	r.clean(p, "ext-data")
}

// The end of a cut says nothing about a plugin that has failed.
func TestUp_PausesAfterAFailureOfThePluginAlsoAtTheEndOfACut(t *testing.T) {
	r := newFixture(t)
	const pause = 500 * time.Millisecond
	r.restartWithPause(pause)
	p := r.plugin("ebs", "plug", nodeOnly)
	p.Fail("NodeStageVolume", csitest.Error("Unavailable", "away"))
	u := use("data", "a1")
	var back backoff.Recovery
	u.ServersBack = &back
	var failed time.Time
	_, err := r.v.Up(r.ctx(), u, func(string) {
		failed = time.Now()
		back.Announce()
	})
	kit.Must(t, err)
	if took := time.Since(failed); failed.IsZero() || took < pause/2 {
		t.Errorf("the plugin was called again after %s, want about %s", took, pause)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

// The pause after a failure of the plugin ends when an operator requests it, also during the call that fails.
func TestUp_MountsAgainAtOnceForAnOperator(t *testing.T) {
	r := newFixture(t)
	r.restartWithPause(time.Hour)
	p := r.plugin("ebs", "plug", nodeOnly)
	away := csitest.Error("Unavailable", "away")
	p.Fail("NodeStageVolume", away, away)
	p.Fail("NodePublishVolume", away)
	u := use("data", "a1")
	retry := func(want ...string) {
		t.Helper()
		if other := r.v.RetryMounts(use("other", "a1").VolumeKey); len(other) > 0 {
			t.Errorf("another volume has the failed mounts %v", other)
		}
		if got := r.v.RetryMounts(u.VolumeKey); !slices.Equal(got, want) {
			t.Errorf("the failed mounts are %v, want %v", got, want)
		}
	}
	asked := 0
	u.Confirm = func(context.Context) error {
		asked++
		switch asked {
		case 1:
			retry()
		case 2:
			retry("a1") // the call of this try fails, too
		}
		return nil
	}
	failures := 0
	_, err := r.v.Up(r.ctx(), u, func(string) {
		failures++
		if failures != 2 {
			retry("a1")
		}
	})
	kit.Must(t, err)
	if failures != 3 {
		t.Errorf("%d failures, want 3", failures)
	}
	retry()
	r.down(u)
	r.clean(p, "ext-data")
}

// A mount under one grant does not serve a later grant, because others may have written between the two.
func TestUp_RejectsAMountOfAnEarlierGrant(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.Grant = 7
	r.up(u)
	if i, err := r.v.Inventory(); err != nil || len(i.Held) != 1 || i.Held[0].AllocID != "a1" ||
		i.Held[0].GrantIndex != 7 {
		t.Errorf("inventory: %+v, %v", i, err)
	}
	r.up(u)
	u.Grant = 9
	if _, err := r.v.Up(r.ctx(), u, nil); !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
	r.down(u)
	if i, err := r.v.Inventory(); err != nil || len(i.Held) != 0 {
		t.Errorf("inventory: %+v, %v", i, err)
	}
	r.up(u)
	r.down(u)
	r.clean(p, "ext-data")
}

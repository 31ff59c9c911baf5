package guard

import (
	"errors"
	"testing"
	"time"

	"berth/client/guard/watch"
	"berth/structs"
	"berth/test/kit"
)

func TestWithdraw_LeavesTheRestOfTheOrder(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	stop := time.Minute
	first := watch.OrderedVolume{ID: "first", Target: "/t1", Stage: "/s1"}
	second := watch.OrderedVolume{ID: "second", Target: "/t2", Stage: "/s2"}
	for _, id := range []string{"plain", "stops"} {
		of := group("exec", nil)
		if id == "stops" {
			of = group("exec", &stop)
		}
		kit.Must(t, f.Order(id, of, []watch.OrderedVolume{first, second}))
		kit.Must(t, f.Withdraw(id, of, first))
		if o := f.orderOf(id); len(o.Volumes) != 1 || o.Volumes[0] != second || o.Delay != 0 || len(o.Groups) != 1 {
			t.Errorf("the order of %s is %+v", id, o)
		}
		kit.Must(t, f.Withdraw(id, of, second))
		o := f.orderOf(id)
		if id == "plain" && o != nil {
			t.Errorf("the order %+v is left", o)
		}
		if id == "stops" && (len(o.Volumes) > 0 || o.Delay != delayOf(of)) {
			t.Errorf("the order is %+v", o)
		}
		kit.Must(t, f.Withdraw(id, of, second))
	}
}

func TestWithdraw_RejectsWhatIsDue(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	v := watch.OrderedVolume{ID: "v", Target: "/t", Stage: "/s"}
	kit.Must(t, f.Order("a", group("exec", nil), []watch.OrderedVolume{v}))
	kit.Must(t, f.present().MarkDue(&watch.Due{AllocID: "a"}))
	err := f.Withdraw("a", group("exec", nil), v)
	if has, _ := f.Has("a", v); !structs.IsKind(err, structs.KindConflict) || !has {
		t.Errorf("got %v, ordered: %v", err, has)
	}
}

func TestOrder_SaysThatNoGuardWorks(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	f.Command = []string{"/nonexistent"}
	err := f.Order("a", group("exec", nil), []watch.OrderedVolume{{ID: "v", Target: "/t", Stage: "/s"}})
	if !errors.Is(err, watch.ErrNoGuard) || f.orderOf("a") != nil {
		t.Errorf("got %v", err)
	}
}

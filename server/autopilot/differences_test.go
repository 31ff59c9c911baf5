package autopilot

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state/clustertime"
	"berth/structs/cluster"
)

// A server that differs is named, as follower and as leader, and nothing is unhealthy.
func TestHealth_NamesTheSettingsThatDiffer(t *testing.T) {
	for name, differs := range map[string]string{"a follower": "s2", "the leader": "s1"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(members("s1", "s2", "s3")...)
			w.settings = map[string]map[string]string{}
			for _, server := range []string{"s1", "s2", "s3"} {
				w.settings[server] = map[string]string{"tls.mode": "require", "audit": "on"}
			}
			w.settings[differs]["tls.mode"] = "prefer"
			w.start(t)
			after(time.Minute)

			got, err := w.Health()
			if err != nil || !got.Healthy || len(got.Differences) != 1 {
				t.Fatalf("%s: the health is %+v, %v", name, got, err)
			}
			d := got.Differences[0]
			told := map[string]string{}
			for _, s := range d.Servers {
				told[strings.TrimSuffix(s.Server, ".global")] = s.Value
			}
			want := map[string]string{"s1": "require", "s2": "require", "s3": "require"}
			want[differs] = "prefer"
			if d.Setting != "tls.mode" || !maps.Equal(told, want) {
				t.Errorf("%s: the difference is %s", name, d)
			}

			// It was restarted with the setting of the others.
			w.mu.Lock()
			w.settings[differs] = map[string]string{"tls.mode": "require", "audit": "on"}
			w.mu.Unlock()
			after(time.Minute)
			got, err = w.Health()
			if err != nil || len(got.Differences) != 0 {
				t.Errorf("%s: the differences are %v, %v", name, got.Differences, err)
			}
		})
	}
}

// A server of an older version tells nothing, and one that does not answer has no settings.
func TestHealth_ComparesOnlyServersThatTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3")...)
		w.settings = map[string]map[string]string{"s1": {"audit": "on"}, "s3": {"audit": "on", "new": "1"}}
		w.start(t)
		after(time.Minute)
		got, err := w.Health()
		if err != nil || len(got.Differences) != 1 {
			t.Fatalf("the health is %+v, %v", got, err)
		}
		want := cluster.SettingDifference{
			Setting: "new",
			Servers: []cluster.ServerSetting{{Server: "s1.global"}, {Server: "s3.global", Value: "1"}},
		}
		if got := got.Differences[0].String(); got != want.String() {
			t.Errorf("the difference is %s, want %s", got, want)
		}
	})
}

// A server that is late has the digests of fewer entries.
func TestHealth_NamesStatesThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3")...)
		w.settings = map[string]map[string]string{
			"s1": {cluster.StateAt + "7": "a", cluster.StateAt + "9": "b"},
			"s2": {cluster.StateAt + "7": "a", cluster.StateAt + "9": "c"},
			"s3": {cluster.StateAt + "7": "a"},
		}
		w.start(t)
		after(time.Minute)
		got, err := w.Health()
		if err != nil || len(got.Differences) != 1 {
			t.Fatalf("the health is %+v, %v", got, err)
		}
		want := "the servers differ in state after entry 9: b on s1.global, c on s2.global"
		if d := got.Differences[0]; d.String() != want || !d.OfState() {
			t.Errorf("got %s, want %s", d, want)
		}
	})
}

// A clock that is wrong makes no server unhealthy.
func TestHealth_NamesClocksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(members("s1", "s2", "s3")...)
		w.start(t)
		after(time.Minute)
		set := func(wrong ...cluster.WrongClock) []*cluster.SettingDifference {
			t.Helper()
			p := &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: 1}, Wrong: wrong}
			if row := clustertime.Of(w.Store.Read()); row != nil {
				p.RowIndex = row.ModifyIndex
			}
			_, err := fsm.Propose(t.Context(), w.log, fsm.ClusterTimeSet, p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.Health()
			if err != nil || !got.Healthy {
				t.Fatalf("the health is %+v, %v", got, err)
			}
			return got.Differences
		}

		got := set(
			cluster.WrongClock{ServerID: "s2", Server: "s2.global", Ahead: 30*time.Hour + time.Millisecond},
			cluster.WrongClock{ServerID: "s3", Server: "s3.global", Ahead: -time.Hour})
		want := "wall clocks of servers differ from the cluster time: 30h0m0s ahead of the cluster time on " +
			"s2.global, 1h0m0s behind the cluster time on s3.global"
		if len(got) != 1 || got[0].String() != want || !strings.Contains(got[0].Remedy(), "operator clock status") {
			t.Errorf("got %v, want %s", got, want)
		}
		if got := set(); len(got) > 0 {
			t.Errorf("when the clocks are right: %v", got)
		}
	})
}

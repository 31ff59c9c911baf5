package template

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/consul/lookup"
	"berth/structs"
)

func TestLookups_AreFunctionsOfATemplate(t *testing.T) {
	noKey := (*lookup.KeyPair)(nil)
	web := []*lookup.Service{
		{
			ID:          "w1",
			Name:        "web",
			Address:     "10.0.0.1",
			Port:        80,
			Tags:        []string{"x"},
			ServiceMeta: map[string]string{"v": "2", "n": "a.b"},
		},
		{
			ID:          "w2",
			Name:        "web",
			Address:     "10.0.0.2",
			Port:        81,
			Tags:        []string{"x", "y"},
			ServiceMeta: map[string]string{"v": "10"},
		},
	}
	own := []*lookup.Instance{{ID: "i1", Name: "db", Address: "10.0.0.3", Port: 5432, Tags: []string{"x"}}}
	keys := []*lookup.KeyPair{
		pair("a/", "", ""), pair("a/b", "b", "1"), pair("a/c/", "c/", ""), pair("a/c/d", "c/d", "2"),
	}
	answers := map[string]any{
		"service web":                       web,
		"service x.web@dc1|passing,warning": web[:1],
		"service none":                      []*lookup.Service{},
		"services":                          []*lookup.ServiceName{{Name: "web", Tags: []string{"x"}}},
		"services @dc1":                     []*lookup.ServiceName{},
		"key a/b":                           pair("a/b", "a/b", "1"),
		"key empty":                         pair("empty", "empty", ""),
		"key none":                          noKey,
		"keys below a":                      keys,
		"keys below none":                   []*lookup.KeyPair{},
		"teamberthService db":               own,
		"teamberthService x.db@eu":          own,
		"teamberthService db (1|me)":        own,
		"teamberthServices":                 []*lookup.ServiceName{{Name: "db", Tags: []string{"x"}}},
		"teamberthServices @eu":             []*lookup.ServiceName{{Name: "far"}},
	}
	for text, want := range map[string]string{
		`{{ range service "web" }}{{ .Address }}:{{ .Port }} {{ end }}`:                                                      "10.0.0.1:80 10.0.0.2:81 ",
		`{{ len (service "x.web@dc1" "passing,warning") }}{{ len (service "none") }}{{ len (service "") }}`:                  "100",
		`{{ range services }}{{ .Name }}{{ .Tags | join "," }}{{ end }}{{ services "@dc1" | len }}`:                          "webx0",
		`{{ key "a/b" }}{{ key "/a/b" }}{{ key "" }}{{ key "empty" }}`:                                                       "11",
		`{{ range loop 300 }}{{ if key "a/b" }}{{ end }}{{ end }}once`:                                                       "once",
		`{{ keyExists "a/b" }} {{ keyExists "none" }} {{ keyExists "" }}`:                                                    "true false false",
		`{{ keyOrDefault "a/b" "x" }}{{ keyOrDefault "none" "y" }}{{ keyOrDefault "empty" "z" }}`:                            "1yz",
		`{{ with keyExistsGet "none" }}{{ .Key }} {{ .Exists }}{{ end }} {{ (keyExistsGet "a/b").Value }}`:                   "none false 1",
		`{{ range ls "a" }}{{ .Key }}={{ .Value }} {{ end }}{{ range safeLs "a" }}{{ .Key }}{{ end }}`:                       "b=1 b",
		`{{ range tree "a" }}{{ .Path }} {{ end }}{{ range safeTree "a" }}{{ .Key }} {{ end }}`:                              "a/b a/c/d b c/d ",
		`{{ ls "none" | len }}{{ tree "none" | len }}{{ ls "" | len }}`:                                                      "000",
		`{{ range berthService "db" }}{{ .Address }}:{{ .Port }}{{ end }}`:                                                   "10.0.0.3:5432",
		`{{ nomadService "x.db@eu" | len }}{{ range nomadService 1 "me" "db" }}{{ .ID }}{{ end }}`:                           "1i1",
		`{{ range nomadServices }}{{ .Name }}{{ end }}{{ range berthServices "@eu" }}{{ .Name }}{{ end }}`:                   "dbfar",
		`{{ range $tag, $list := service "web" | byTag }}{{ $tag }}{{ len $list }}{{ end }}`:                                 "x2y1",
		`{{ range $tag, $list := berthService "db" | byTag }}{{ $tag }}{{ range $list }}{{ .Name }}{{ end }}{{ end }}`:       "xdb",
		`{{ range $tag, $list := services | byTag }}{{ $tag }}{{ end }}`:                                                     "x",
		`{{ range $k, $list := service "web" | byMeta "v|int,n" }}{{ $k }} {{ end }}`:                                        "00002_a_b 00010__no_n_ ",
		`{{ range $k, $all := tree "a" | byKey }}{{ $k }}{{ range $r, $p := $all }}/{{ $r }}={{ $p.Key }}{{ end }}{{ end }}`: "c/d=d",
		`{{ tree "a" | explode | toJSON }}`:                                                                                  `{"b":"1","c":{"d":"2"}}`,
		`{{ (index (service "web") 0).Tags | contains "x" }} {{ (service "none") | toJSON }}`:                                "true []",
	} {
		withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
			s.answers = answers
			fx.mustUp()
			fx.CheckFile("web/local/a", want)
			if got := fx.said(); len(got) > 0 {
				t.Errorf("%s: said %q", text, got)
			}
		})
	}
}

func TestLookups_WithWrongTextsFail(t *testing.T) {
	for text, want := range map[string]string{
		`{{ service "a/b" }}`:              "[TAG.]NAME",
		`{{ services "web" }}`:             "@DATACENTER",
		`{{ key "//" }}`:                   "PATH",
		`{{ ls "@" }}`:                     "PATH",
		`{{ berthService "a" "b" }}`:       "a number, a key and a name",
		`{{ berthService 0 "k" "web" }}`:   "from 1 to",
		`{{ berthService "x" "k" "web" }}`: "berthService",
		`{{ berthService 1 2 "web" }}`:     "a key of",
		`{{ berthServices "web" }}`:        "@REGION",
		`{{ byTag 1 }}`:                    "not a list of services",
		`{{ range loop 300 }}{{ service (printf "s%d" .) }}{{ end }}`: "more than 256",
	} {
		withAnswers(t, reading(text), func(t *testing.T, fx *fixture, _ *source) {
			h, _, err := fx.up()
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q, got %v", text, want, err)
			}
			_ = h.Down(t.Context())
		})
	}
}

func TestLookups_NeedAConsul(t *testing.T) {
	fx := newFixture(t, reading(`{{ key "a" }}`)...)
	_, _, err := fx.up()
	if err == nil || !strings.Contains(err.Error(), "set consul.address") {
		t.Errorf("got %v", err)
	}
}

// Values of services count as their parts: a text may name a large one many times.
func TestLookups_AreBounded(t *testing.T) {
	text := `{{ $x := service "web" }}{{ $l := sprig_list $x $x $x $x $x $x $x $x $x $x }}{{ range $l }}{{ toJSON $l }}{{ end }}`
	withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
		s.answers["service web"] = []*lookup.Service{{ServiceMeta: map[string]string{"x": strings.Repeat("x", 7<<20)}}}
		_, _, err := fx.up()
		if err == nil || !strings.Contains(err.Error(), "the arguments of a function take more than") {
			t.Errorf("got %v", err)
		}
	})
}

// TestUp_WaitsForAnswers has an outer list whose items ask for more.
func TestUp_WaitsForAnswers(t *testing.T) {
	text := `{{ range services }}{{ range service .Name }}{{ .ID }} {{ end }}{{ end }}{{ key "k" }}{{ keyOrDefault "d" "x" }}`
	withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
		s.away = true
		done := make(chan struct{})
		go func() {
			fx.mustUp()
			close(done)
		}()
		step := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			said := fx.said()
			if len(said) == 0 || said[len(said)-1] != "Template: local/a: waiting: "+want {
				t.Errorf("said %q, want %q", said, want)
			}
		}
		const rejected = "(connection refused)"
		step("services " + rejected + "; key k " + rejected + "; key d " + rejected)
		s.setAway(false)
		step("services (connection refused); key k (connection refused); key d (connection refused)")
		s.set("services", []*lookup.ServiceName{{Name: "web"}, {Name: "db"}})
		s.set("key d", (*lookup.KeyPair)(nil))
		step("service web (no answer yet); service db (no answer yet); key k (connection refused)")
		s.set("service web", []*lookup.Service{{ID: "w1"}})
		s.set("service db", []*lookup.Service{{ID: "d1"}})
		s.set("key k", (*lookup.KeyPair)(nil))
		step("key k (Consul does not have it)")
		s.set("key k", pair("k", "k", "v"))
		<-done
		fx.CheckFile("web/local/a", "w1 d1 vx")
		if got, want := s.following(), "key d, key k, service db, service web, services"; got != want {
			t.Errorf("following %s, want %s", got, want)
		}
	})
}

func TestUp_SaysNothingOfAShortWait(t *testing.T) {
	withAnswers(t, reading(`{{ safeLs "a" | len }}`), func(t *testing.T, fx *fixture, s *source) {
		time.AfterFunc(patience/2, func() { s.set("keys below a", []*lookup.KeyPair{pair("a/b", "b", "1")}) })
		fx.mustUp()
		if got := fx.said(); len(got) > 0 {
			t.Errorf("said %q", got)
		}
	})
}

func TestUp_OfATaskThatIsStoppedEnds(t *testing.T) {
	withAnswers(t, reading(`{{ safeTree "a" | len }}`), func(t *testing.T, fx *fixture, s *source) {
		s.answers["keys below a"] = []*lookup.KeyPair{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h := fx.hook()
		err := h.Up(ctx, fx.taskEnv())
		if err == nil || s.following() == "" {
			t.Errorf("got %v, following %q", err, s.following())
		}
		err = h.Down(t.Context())
		if err != nil || s.following() != "" {
			t.Errorf("got %v, following %q after the end", err, s.following())
		}
	})
}

// started is a running task, and the acts of its templates with their times.
func started(t *testing.T, fx *fixture) (*templates, *control) {
	t.Helper()
	h, _ := fx.mustUp()
	c := newControl(fx)
	h.Started(t.Context(), c)
	return h, c
}

// checkActs compares the signals after a time.
func checkActs(t *testing.T, c *control, after time.Duration, want int) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := c.done(); len(got) != want {
		t.Errorf("after %s: acts %q, want %d", after, got, want)
	}
}

func instance(ids ...string) []*lookup.Instance {
	list := []*lookup.Instance{}
	for _, id := range ids {
		list = append(list, &lookup.Instance{ID: id})
	}
	return list
}

const listIDs = `{{ range berthService "db" }}{{ .ID }} {{ end }}`

const dbOfTeam = "teamberthService db"

func TestChange_FollowsAnswersOnceTheySettle(t *testing.T) {
	withAnswers(t, reading(listIDs), func(t *testing.T, fx *fixture, s *source) {
		s.answers[dbOfTeam] = instance("a")
		h, c := started(t, fx)
		checkActs(t, c, time.Minute, 0)
		s.set(dbOfTeam, instance("a", "b"))
		checkActs(t, c, structs.DefaultTemplateShortestWait-time.Millisecond, 0)
		fx.CheckFile("web/local/a", "a ")
		checkActs(t, c, time.Millisecond, 1)
		fx.CheckFile("web/local/a", "a b ")
		s.set(dbOfTeam, instance("b", "a"))
		time.Sleep(3 * time.Second)
		s.set(dbOfTeam, instance("a", "b")) // as before
		checkActs(t, c, time.Hour, 0)
		s.set(dbOfTeam, instance("c"))
		checkActs(t, c, structs.DefaultTemplateShortestWait-time.Millisecond, 0)
		checkActs(t, c, time.Millisecond, 1)
		s.setAway(true)
		checkActs(t, c, time.Hour, 0)
		fx.CheckFile("web/local/a", "c ")
		h.Stopped()
		err := h.Down(t.Context())
		if err != nil || s.following() != "" {
			t.Errorf("got %v, following %q after the end", err, s.following())
		}
	})
}

func TestChange_WaitsWhileAnswersChange(t *testing.T) {
	list := reading(listIDs, waiting(2*time.Second, 9*time.Second))
	withAnswers(t, list, func(t *testing.T, fx *fixture, s *source) {
		s.answers[dbOfTeam] = instance("a")
		h, c := started(t, fx)
		synctest.Wait()
		time.Sleep(time.Minute)
		for i := range 8 {
			s.set(dbOfTeam, instance(fmt.Sprint(i)))
			checkActs(t, c, time.Second, 0)
		}
		s.set(dbOfTeam, instance("8"))
		checkActs(t, c, time.Second+time.Millisecond, 1)
		fx.CheckFile("web/local/a", "8 ")
		s.set(dbOfTeam, instance("9"))
		checkActs(t, c, 2*time.Second+time.Millisecond, 1)
		h.Stopped()
	})
}

// Changes on the node do not wait for answers to settle.
func TestChange_OfAFileDoesNotWait(t *testing.T) {
	list := reading(`{{ file "local/in" }}` + listIDs)
	withAnswers(t, list, func(t *testing.T, fx *fixture, s *source) {
		s.answers[dbOfTeam] = instance("a")
		fx.MustWrite("web/local/in", "one")
		h, c := started(t, fx)
		synctest.Wait()
		fx.MustWrite("web/local/in", "two")
		checkActs(t, c, PollInterval, 1)
		fx.CheckFile("web/local/a", "twoa ")
		h.Stopped()
	})
}

// A list whose items ask for more follows the items alone that it has.
func TestChange_FollowsTheItemsOfAList(t *testing.T) {
	list := reading(`{{ range berthServices }}{{ range berthService .Name }}{{ .ID }} {{ end }}{{ end }}`, waiting(10*time.Second, time.Minute))
	withAnswers(t, list, func(t *testing.T, fx *fixture, s *source) {
		s.answers["teamberthServices"] = []*lookup.ServiceName{{Name: "db"}}
		s.answers[dbOfTeam] = instance("a")
		h, c := started(t, fx)
		s.set("teamberthServices", []*lookup.ServiceName{{Name: "web"}})
		checkActs(t, c, time.Minute, 0)
		if said := fx.said(); len(said) != 1 || !strings.Contains(said[0], "keeping the last text: berthService web (no answer yet)") {
			t.Errorf("said %q", said)
		}
		fx.CheckFile("web/local/a", "a ")
		s.set("teamberthService web", instance("w"))
		checkActs(t, c, time.Second, 1)
		fx.CheckFile("web/local/a", "w ")
		if got := s.following(); got != "berthService web, berthServices" {
			t.Errorf("following %s", got)
		}
		h.Stopped()
	})
}

// A key that is deleted changes nothing until it is there again.
func TestChange_KeepsTheTextOfADeletedKey(t *testing.T) {
	withAnswers(t, reading(`{{ key "a" }}`, waiting(0, 0)), func(t *testing.T, fx *fixture, s *source) {
		s.answers["key a"] = pair("a", "a", "one")
		h, c := started(t, fx)
		s.set("key a", (*lookup.KeyPair)(nil))
		checkActs(t, c, time.Minute, 0)
		fx.CheckFile("web/local/a", "one")
		if said := fx.said(); len(said) != 1 || !strings.Contains(said[0], "key a (Consul does not have it)") {
			t.Errorf("said %q", said)
		}
		s.set("key a", pair("a", "a", "two"))
		checkActs(t, c, time.Second, 1)
		fx.CheckFile("web/local/a", "two")
		h.Stopped()
	})
}

// The process of a task starts again while Consul is away.
func TestUp_HasTheLastAnswers(t *testing.T) {
	withAnswers(t, reading(listIDs), func(t *testing.T, fx *fixture, s *source) {
		s.answers[dbOfTeam] = instance("a")
		h, _ := started(t, fx)
		s.setAway(true)
		time.Sleep(time.Hour)
		h.Stopped()
		begin := time.Now()
		err := h.Up(t.Context(), fx.taskEnv())
		if err != nil || time.Since(begin) > 0 {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		fx.CheckFile("web/local/a", "a ")
	})
}

// An agent that starts again follows the answers of the texts, and compares them with the former ones.
func TestRestart_OfTheAgentComparesAnswers(t *testing.T) {
	list := reading(`{{ timestamp "unix" }}`+listIDs, waiting(0, 0))
	withAnswers(t, list, func(t *testing.T, fx *fixture, s *source) {
		s.answers[dbOfTeam] = instance("a")
		h, _ := started(t, fx)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		restart := func() *control {
			t.Helper()
			h.Stopped()
			h.lookups.Keep(nil) // of the old process
			synctest.Wait()
			h = fx.hook()
			env := fx.taskEnv()
			env.Running = true
			err := h.Up(ctx, env) // it does not wait
			if err != nil {
				t.Fatal(err)
			}
			c := newControl(fx)
			h.Started(t.Context(), c)
			return c
		}
		synctest.Wait()
		s.setAway(true)
		c := restart()
		checkActs(t, c, time.Hour, 0)
		s.setAway(false)
		checkActs(t, c, time.Hour, 0)
		s.set(dbOfTeam, instance("b"))
		checkActs(t, c, time.Second, 1)
		s.setAway(true)
		s.set(dbOfTeam, instance("c"))
		c = restart()
		checkActs(t, c, time.Hour, 0)
		s.setAway(false)
		checkActs(t, c, time.Minute, 1)
		h.Stopped()
		if said := fx.said(); len(said) != 2 {
			t.Errorf("said %q", said)
		}
	})
}

// A record that was lost costs no task its life.
func TestRestart_WithoutARecordWaitsForAnswers(t *testing.T) {
	list := append(reading(listIDs), reading(`{{ key "a" }}`)...)
	list[1].DestPath = "local/b"
	withAnswers(t, list, func(t *testing.T, fx *fixture, s *source) {
		fx.MustWrite("web/local/a", "a ")
		fx.MustWrite("web/local/b", "one")
		h := fx.hook()
		env := fx.taskEnv()
		env.Running = true
		err := h.Up(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		c := newControl(fx)
		h.Started(t.Context(), c)
		checkActs(t, c, time.Minute, 0)
		s.set(dbOfTeam, instance("a"))
		s.set("key a", pair("a", "a", "two"))
		checkActs(t, c, time.Minute, 1)
		fx.CheckFile("web/local/b", "two")
		h.Stopped()
	})
}

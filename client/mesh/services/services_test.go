package services

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/structs/validate/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// control is a task in which scripts succeed.
type control struct {
	hooks.Control
	mu     sync.Mutex
	events []string
	runs   int
	code   int // of the scripts

	restarts int
}

func (c *control) Restart(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts++
}

func (c *control) setCode(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

func (c *control) Emit(e *structs.TaskEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e.Message)
}

func (c *control) Exec(_ context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	_, err := x.Stdout.Write([]byte("looked"))
	return &driver.ExitResult{ExitCode: c.code}, err
}

type fixture struct {
	*Set
	alloc   *structs.Allocation
	group   *structs.TaskGroup
	node    *structs.Node
	network *structs.AllocNetworkStatus
	task    *control

	location *driver.Location // of its tasks
	mu       sync.Mutex
	changes  int
}

// newFixture makes the set of a group with the main tasks a and b.
func newFixture(t *testing.T, edit func(g *structs.TaskGroup)) *fixture {
	f := &fixture{
		alloc: &structs.Allocation{
			ID:    "alloc1",
			Name:  "job.g[0]",
			Ports: []structs.AllocatedPort{{Label: "http", Value: 20000, HostIP: "10.0.0.1"}},
		},
		group: &structs.TaskGroup{Tasks: []*structs.Task{{Name: "a"}, {Name: "b"}}},
		node:  &structs.Node{},
		task:  &control{},
	}
	edit(f.group)
	f.Set = New(Config{
		Logger: hclog.NewNullLogger(),
		Alloc:  func() *structs.Allocation { return f.alloc },
		Group:  func() *structs.TaskGroup { return f.group },
		Node:   func() *structs.Node { return f.node },

		Network: func() *structs.AllocNetworkStatus { return f.network },
		Expand: func(task string) func(string) string {
			return func(s string) string { return strings.ReplaceAll(s, "${task}", task) }
		},
		Changed: func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changes++
		},
	})
	t.Cleanup(f.Close)
	return f
}

func (f *fixture) begin(tasks ...string) {
	for _, name := range tasks {
		f.Start(name, f.task, time.Now(), f.location)
	}
}

// told returns how often Changed was called.
func (f *fixture) told() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

func (f *fixture) checkOffered(t *testing.T, when string, want ...string) {
	t.Helper()
	var got []string
	for _, i := range f.Instances() {
		got = append(got, i.ServiceName)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: the services are %q, want %q", when, got, want)
	}
}

func scriptCheck() *structs.ServiceCheck {
	return &structs.ServiceCheck{
		Name:     "look",
		Type:     structs.CheckScript,
		Command:  "look",
		TaskName: "a",
		Interval: time.Minute,
		Timeout:  time.Second,
		OnUpdate: structs.OnUpdateRequireHealthy,
	}
}

func TestSet_OffersServicesWhileTheirTasksRun(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Services = []*structs.Service{{Name: "group"}, {Name: "of-b", TaskName: "b"}}
		g.Tasks[0].Services = []*structs.Service{{Name: "own-${task}", PortLabel: "http"}}
	})
	f.begin("a")
	f.checkOffered(t, "with one task", "own-a")
	if i := f.Instances()[0]; i.Address != "10.0.0.1" || i.Port != 20000 {
		t.Errorf("the address is %s:%d", i.Address, i.Port)
	}
	f.begin("b")
	f.checkOffered(t, "with all tasks", "group", "of-b", "own-a")
	f.Withdraw("a")
	f.checkOffered(t, "while a is about to stop", "group", "of-b")
	f.Stop("a")
	f.Stop("b")
	f.checkOffered(t, "at the end")
	f.begin("b")
	f.checkOffered(t, "after a restart of b", "of-b")
	f.begin("a")
	f.checkOffered(t, "after all restarts", "group", "of-b", "own-a")
	before := f.changes
	f.Update()
	if f.changes != before {
		t.Error("an update without a change was reported")
	}
}

// A deployment waits for Changed before it asks for the health again.
func TestSet_TellsEachChangeOfItsHealth(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		f := newFixture(t, func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{
				{Name: "kept", TaskName: "a"},
				{Name: "in-consul", TaskName: "b", Provider: structs.ServiceProviderConsul},
			}
		})
		f.Consul = newFakeConsul()
		last, changes := health{}, f.told()
		look := func(when string) {
			t.Helper()
			since, healthy := f.HealthySince()
			if now := (health{since, healthy}); now != last && f.told() == changes {
				t.Errorf("order %q, %s: the health is %t, and nobody was told", order, when, healthy)
			}
			last, changes = health{since, healthy}, f.told()
		}
		look("at first")
		f.begin(order[0])
		look("with one task")
		f.begin(order[1])
		look("with both")
		if !last.healthy {
			t.Errorf("order %q: not healthy with all tasks", order)
		}
		f.Update()
		if f.told() != changes {
			t.Errorf("order %q: an update without a change was reported", order)
		}
		f.Withdraw("b")
		look("while b stops")
		f.begin("b")
		look("after a restart of b")

		more := *f.group
		more.Services = append(slices.Clone(more.Services), &structs.Service{
			Name: "new", TaskName: "b", Provider: structs.ServiceProviderConsul,
			Checks: []*structs.ServiceCheck{scriptCheck()},
		})
		f.group = &more
		f.Update()
		look("after another version of the job")
	}
}

func TestSet_ReportsABadNameOnce(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Tasks[0].Services = []*structs.Service{{Name: "no ${task}"}, {Name: "good"}}
	})
	f.begin("a")
	f.Update()
	f.Stop("a")
	f.begin("a")
	f.checkOffered(t, "beside a bad name", "good")
	if len(f.task.events) != 1 || !strings.Contains(f.task.events[0], `its name is "no a" here`) {
		t.Errorf("the events are %q", f.task.events)
	}
	if _, healthy := f.HealthySince(); healthy {
		t.Error("the allocation is healthy without one of its services")
	}
}

// The servers reject a report with more bytes than they accept, with all other allocations of the report.
func TestSet_BoundsAllInstancesTogether(t *testing.T) {
	tag := strings.Repeat("x", structs.MaxText-1)
	f := newFixture(t, func(g *structs.TaskGroup) {
		for _, name := range strings.Fields("one two three four five six seven eight nine ten") {
			tags := slices.Repeat([]string{tag}, structs.MaxServiceBytes/structs.MaxText)
			g.Services = append(g.Services, &structs.Service{Name: name, Tags: tags})
		}
	})
	f.begin("a", "b")
	all := f.Instances()
	if err := report.Services(all); err != nil || len(all) == 0 || len(all) == 10 {
		t.Errorf("%d instances: %v", len(all), err)
	}
}

func TestSet_EndsCanaryTagsWithThePromotion(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Services = []*structs.Service{{Name: "web", Tags: []string{"live"}, CanaryTags: []string{"canary"}}}
	})
	f.alloc.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
	f.begin("a", "b")
	if got := f.Instances()[0].Tags; !slices.Equal(got, []string{"canary"}) {
		t.Errorf("the tags of a canary are %q", got)
	}
	f.alloc = &structs.Allocation{ID: "alloc1"}
	f.Update()
	if got := f.Instances()[0].Tags; !slices.Equal(got, []string{"live"}) {
		t.Errorf("the tags after the promotion are %q", got)
	}
}

func TestSet_RestartsOnlyChecksThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := scriptCheck()
		other.Name = "other"
		f := newFixture(t, func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{{Name: "web", Checks: []*structs.ServiceCheck{scriptCheck(), other}}}
		})
		defer f.Close()
		f.begin("a", "b")
		synctest.Wait()
		if f.task.runs != 2 || f.Instances()[0].Status != structs.CheckPassing {
			t.Fatalf("%d runs, status %s", f.task.runs, f.Instances()[0].Status)
		}
		began := time.Now()
		time.Sleep(time.Second)
		changed := *other
		changed.Command = "look again"
		f.group = &structs.TaskGroup{Tasks: f.group.Tasks, Services: []*structs.Service{
			{Name: "web", Tags: []string{"new"}, Checks: []*structs.ServiceCheck{scriptCheck(), &changed}},
		}}
		f.Update()
		synctest.Wait()
		if f.task.runs != 3 || !slices.Equal(f.Instances()[0].Tags, []string{"new"}) {
			t.Errorf("%d runs after the change of one check, instance %+v", f.task.runs, f.Instances()[0])
		}
		since, healthy := f.HealthySince()
		if !healthy || since.Sub(began) != time.Second || len(f.Checks()) != 2 {
			t.Errorf("healthy %v since %s, checks %v", healthy, since, f.Checks())
		}
		f.Withdraw("a", "b")
		time.Sleep(time.Hour)
		if f.task.runs != 3 {
			t.Errorf("%d runs after the withdrawal", f.task.runs)
		}
	})
}

func TestSet_IsHealthyWithoutTheServicesOfTasksThatHaveEnded(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Tasks[0].Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart}
		g.Tasks[0].Services = []*structs.Service{{Name: "early"}}
		g.Tasks[1].Services = []*structs.Service{{Name: "late"}}
	})
	if _, healthy := f.HealthySince(); healthy {
		t.Error("healthy before the main task")
	}
	f.begin("b")
	if _, healthy := f.HealthySince(); !healthy {
		t.Error("not healthy after the end of a task that prepares others")
	}
}

func TestSet_WaitsForTheServicesOfSidecars(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Tasks[0].Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart, Sidecar: true}
		g.Tasks[0].Services = []*structs.Service{{Name: "proxy"}}
	})
	f.begin("b")
	if _, healthy := f.HealthySince(); healthy {
		t.Error("healthy without a sidecar")
	}
	f.begin("a")
	if _, healthy := f.HealthySince(); !healthy {
		t.Error("not healthy with all tasks")
	}
}

func TestSet_IsHealthySinceTheLastOfItsServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &structs.Service{Name: "one", Checks: []*structs.ServiceCheck{scriptCheck()}}
		two := &structs.Service{Name: "two", Checks: []*structs.ServiceCheck{scriptCheck()}}
		two.Checks[0].TaskName = "b"
		f := newFixture(t, func(g *structs.TaskGroup) {
			g.Tasks[0].Services = []*structs.Service{one}
			g.Tasks[1].Services = []*structs.Service{two}
		})
		defer f.Close()
		f.begin("b")
		synctest.Wait()
		time.Sleep(time.Second)
		last := time.Now()
		f.begin("a")
		synctest.Wait()
		if since, healthy := f.HealthySince(); !healthy || !since.Equal(last) {
			t.Errorf("healthy %v since %s, want since %s", healthy, since, last)
		}
	})
}

func TestSet_KeepsItsInstancesForTheNextAgent(t *testing.T) {
	f := newFixture(t, func(g *structs.TaskGroup) {
		g.Services = []*structs.Service{{Name: "web"}}
	})
	f.begin("a", "b")
	before := f.changes
	f.Close()
	f.Withdraw("a", "b")
	f.Stop("a")
	f.checkOffered(t, "after the end of the agent", "web")
	if f.changes != before {
		t.Error("the end of the agent was reported as a change")
	}
}

// A service of the group restarts the main tasks that run, one of a task this task, and a check in a task the
// one in which it runs. The grace counts from the newest start.
func TestSet_RestartsTheTasksOfAService(t *testing.T) {
	grace := 10 * time.Second
	failing := func(task string) *structs.ServiceCheck {
		return &structs.ServiceCheck{
			Type:         "unknown", // it fails
			Interval:     time.Minute,
			Timeout:      time.Second,
			TaskName:     task,
			CheckRestart: &structs.CheckRestart{Limit: 1, Grace: &grace},
		}
	}
	for name, c := range map[string]struct {
		of    string // the task that has the service
		check *structs.ServiceCheck
		want  map[string]int
	}{
		"of the group":       {"", failing(""), map[string]int{"a": 1, "b": 1, "early": 0}},
		"of a task":          {"b", failing(""), map[string]int{"a": 0, "b": 1, "early": 0}},
		"of another's check": {"b", failing("a"), map[string]int{"a": 1, "b": 0, "early": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(g *structs.TaskGroup) {
					list := []*structs.Service{{Name: "web", Checks: []*structs.ServiceCheck{c.check}}}
					early := &structs.Task{
						Name:      "early",
						Lifecycle: &structs.TaskLifecycle{Hook: structs.LifecyclePrestart, Sidecar: true},
					}
					g.Tasks = append(g.Tasks, early)
					if c.of == "" {
						g.Services = list
					} else {
						g.Task(c.of).Services = list
					}
				})
				defer f.Close()
				controls := map[string]*control{"a": {}, "b": {}, "early": {}}
				// The first run may come before all tasks have started. It is within the grace of all.
				old := time.Now().Add(-grace / 2)
				for task, control := range controls {
					f.Start(task, control, old, nil)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				for task, want := range c.want {
					if got := controls[task].restarts; got != want {
						t.Errorf("%d restarts of %s, want %d", got, task, want)
					}
				}
				// The second run is within the grace of one of the tasks.
				f.Start("a", controls["a"], old, nil)
				f.Start("b", controls["b"], time.Now().Add(time.Minute-time.Second), nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if c.of == "" && controls["b"].restarts != 1 {
					t.Error("the grace counts from an older start")
				}
			})
		})
	}
}

package services

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"berth/client/drivers/driver"
	"berth/structs"
)

// probeOnce runs a check once within a limit.
func probeOnce(t *testing.T, target checkTarget, limit time.Duration) probeResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return probe(ctx, target)
}

func checkResult(t *testing.T, got probeResult, status, output string) {
	t.Helper()
	if got.status != status || !strings.Contains(got.output, output) {
		t.Errorf("got %s %q, want %s with %q", got.status, got.output, status, output)
	}
}

func TestHTTP_JudgesTheStatus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/long":
			_, _ = w.Write([]byte(strings.Repeat("x", 4*maxCheckOutput)))
		case r.URL.Path == "/hang":
			<-r.Context().Done()
		case r.Method != "PUT" || r.Host != "web.example" || r.Header.Get("X-Name") != "one":
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = w.Write([]byte("fine"))
		}
	}))
	defer server.Close()
	at := func(path string) checkTarget {
		return checkTarget{
			Address: server.Listener.Addr().String(),
			Check: &structs.ServiceCheck{
				Type:     structs.CheckHTTP,
				Protocol: "http",
				Method:   "PUT",
				Path:     path,
				Header:   map[string][]string{"Host": {"web.example"}, "X-Name": {"one"}},
			},
		}
	}
	checkResult(t, probeOnce(t, at("/"), time.Minute), structs.CheckPassing, "200 OK: fine")
	checkResult(t, probeOnce(t, at("/busy"), time.Minute), structs.CheckWarning, "429")
	checkResult(t, probeOnce(t, at("/hang"), 50*time.Millisecond), structs.CheckFailing, "deadline")
	if got := probeOnce(t, at("/long"), time.Minute); len(got.output) > maxCheckOutput+8 {
		t.Errorf("the output has %d bytes", len(got.output))
	}
	wrong := at("/")
	wrong.Check.Method = "GET"
	checkResult(t, probeOnce(t, wrong, time.Minute), structs.CheckFailing, "400")
}

func TestHTTPS_VerifiesTheCertificateUnlessTold(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	target := checkTarget{
		Address: server.Listener.Addr().String(),
		Check:   &structs.ServiceCheck{Type: structs.CheckHTTP, Protocol: "https", Method: "GET", Path: "/"},
	}
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "certificate")
	target.Check.TLSSkipVerify = true
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckPassing, "200")
}

func TestTCP_NeedsAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := checkTarget{Address: l.Addr().String(), Check: &structs.ServiceCheck{Type: structs.CheckTCP}}
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckPassing, "connected")
	_ = l.Close()
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "connection refused")
}

func TestGRPC_AsksTheHealthService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	state := grpchealth.NewServer()
	state.SetServingStatus("api", healthpb.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, state)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Stop(); <-served }()
	target := checkTarget{Address: l.Addr().String(), Check: &structs.ServiceCheck{Type: structs.CheckGRPC}}
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckPassing, "SERVING")
	target.Check.GRPCService = "api"
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "NOT_SERVING")
	target.Check.GRPCService = "unknown"
	checkResult(t, probeOnce(t, target, time.Minute), structs.CheckFailing, "unknown service")
}

func TestScript_JudgesTheExitCode(t *testing.T) {
	for code, want := range map[int]string{
		0: structs.CheckPassing,
		1: structs.CheckWarning,
		2: structs.CheckFailing,
	} {
		target := checkTarget{
			Check: &structs.ServiceCheck{Type: structs.CheckScript, Command: "look", Args: []string{"-v"}},
			Exec: func(_ context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
				_, _ = x.Stdout.Write([]byte(strings.Join(x.Command, " ")))
				_, _ = x.Stderr.Write([]byte(strings.Repeat("x", 4*maxCheckOutput)))
				return &driver.ExitResult{ExitCode: code}, nil
			},
		}
		got := probeOnce(t, target, time.Minute)
		checkResult(t, got, want, "look -v")
		if len(got.output) > maxCheckOutput+8 {
			t.Errorf("the output has %d bytes", len(got.output))
		}
		target.Exec = func(ctx context.Context, _ *driver.ExecConfig) (*driver.ExitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		checkResult(t, probeOnce(t, target, time.Millisecond), structs.CheckFailing, "no end within")
	}
}

// checkFixture is a check of a script in virtual time, once a second.
type checkFixture struct {
	codes    []int // of the runs; the last one stays
	runs     int
	changes  int
	restarts int
	idle     bool // no task runs
	hang     bool // a run has no end
}

func (f *checkFixture) start(ctx context.Context, edit func(*structs.ServiceCheck)) *healthCheck {
	c := &structs.ServiceCheck{
		Type:     structs.CheckScript,
		Command:  "look",
		Interval: time.Second,
		Timeout:  time.Second,
	}
	edit(c)
	begun := time.Now()
	if f.idle {
		begun = time.Time{}
	}
	target := checkTarget{Check: c}
	target.Exec = func(ctx context.Context, _ *driver.ExecConfig) (*driver.ExitResult, error) {
		if f.hang {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		code := f.codes[min(f.runs, len(f.codes)-1)]
		f.runs++
		return &driver.ExitResult{ExitCode: code}, nil
	}
	return startCheck(ctx, target, checkConfig{
		Changed: func() { f.changes++ },
		Restart: func(string) { f.restarts++ },
		Begun:   func() time.Time { return begun },
	})
}

func TestCheck_ChangesAfterAsManyResultsAsItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &checkFixture{codes: []int{0, 2, 0, 0, 2, 2, 2}}
		k := f.start(t.Context(), func(c *structs.ServiceCheck) {
			c.SuccessBeforePassing = 2
			c.FailuresBeforeCritical = 3
		})
		defer k.Wait()
		defer k.Cancel()
		wanted := []string{"pending", "pending", "pending", "success", "success", "success", "failure"}
		for second, want := range wanted {
			synctest.Wait()
			if got := k.Status().Status; got != want {
				t.Errorf("after run %d the status is %s, want %s", second+1, got, want)
			}
			time.Sleep(time.Second)
		}
		if f.changes != 2 {
			t.Errorf("%d changes, want 2", f.changes)
		}
	})
}

func TestCheckRestart_CountsFailuresAfterTheGrace(t *testing.T) {
	grace := 2 * time.Second
	for name, c := range map[string]struct {
		code   int
		ignore bool
		begun  bool
		needed int
		want   int // restarts after 9 runs
	}{
		"failures":               {2, false, true, 0, 2}, // of the runs 3 to 5 and 6 to 8
		"warnings":               {1, false, true, 0, 2},
		"warnings, ignored":      {1, true, true, 0, 0},
		"no task runs":           {2, false, false, 0, 0},
		"the status has changed": {2, false, true, 5, 1}, // of the runs 5 to 7
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &checkFixture{codes: []int{c.code}, idle: !c.begun}
				k := f.start(t.Context(), func(check *structs.ServiceCheck) {
					check.FailuresBeforeCritical = c.needed
					check.CheckRestart = &structs.CheckRestart{Limit: 3, Grace: &grace, IgnoreWarnings: c.ignore}
				})
				time.Sleep(8*time.Second + time.Millisecond)
				k.Cancel()
				k.Wait()
				if f.restarts != c.want {
					t.Errorf("%d restarts after %d runs, want %d", f.restarts, f.runs, c.want)
				}
			})
		})
	}
}

func TestCheck_BeginsWithItsInitialStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &checkFixture{codes: []int{2, 1, 0}}
		k := f.start(t.Context(), func(c *structs.ServiceCheck) {
			c.InitialStatus = structs.CheckPassing
			c.FailuresBeforeCritical = 2
		})
		if got := k.Status().Status; got != structs.CheckPassing {
			t.Errorf("it begins as %s", got)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		k.Cancel()
		k.Wait()
		if s := k.Status(); s.Status != structs.CheckPassing || !s.UsableSince.Before(s.Since) || f.changes != 2 {
			t.Errorf("status %+v after %d changes", s, f.changes)
		}
	})
}

// TestCheck_BeginsWithAWarning has a check that warns before its first result, and is usable.
func TestCheck_BeginsWithAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &checkFixture{hang: true} // the first run has no result yet
		k := f.start(t.Context(), func(c *structs.ServiceCheck) { c.InitialStatus = structs.CheckWarning })
		synctest.Wait()
		if s := k.Status(); s.Status != structs.CheckWarning || s.UsableSince.IsZero() {
			t.Errorf("it begins as %+v", s)
		}
		k.Cancel()
		k.Wait()
	})
}

func TestCheckRestart_CountsResultsInARow(t *testing.T) {
	for limit, want := range map[int]int{0: 0, 2: 1, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := &checkFixture{codes: []int{2, 0, 2, 2, 0}}
			k := f.start(t.Context(), func(c *structs.ServiceCheck) {
				c.CheckRestart = &structs.CheckRestart{Limit: limit}
			})
			time.Sleep(6 * time.Second)
			k.Cancel()
			k.Wait()
			if f.restarts != want {
				t.Errorf("limit %d: %d restarts, want %d", limit, f.restarts, want)
			}
		})
	}
}

func TestCheck_TellsItsLastResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &checkFixture{codes: []int{0, 2}}
		k := f.start(t.Context(), func(*structs.ServiceCheck) {})
		synctest.Wait()
		if s := k.Status(); !s.At.Equal(time.Now()) || s.UsableSince.IsZero() {
			t.Errorf("after a success: %+v", s)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s := k.Status()
		if !s.At.Equal(time.Now()) || !strings.Contains(s.Output, "exit code 2") || !s.UsableSince.IsZero() {
			t.Errorf("after a failure: %+v", s)
		}
		k.Cancel()
		k.Wait()
	})
}

// The result of a run that the end of the check has cut off says nothing about the service.
func TestCheck_DropsTheResultOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &checkFixture{hang: true}
		k := f.start(t.Context(), func(c *structs.ServiceCheck) { c.Timeout = time.Hour })
		time.Sleep(time.Minute)
		k.Cancel()
		k.Wait()
		if s := k.Status(); s.Status != structs.CheckPending || f.changes != 0 {
			t.Errorf("after the end: %+v, %d changes", s, f.changes)
		}
	})
}

func TestCheck_EndsARunAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &checkFixture{hang: true}
		k := f.start(t.Context(), func(c *structs.ServiceCheck) { c.Timeout = 2 * time.Second })
		time.Sleep(2*time.Second + time.Millisecond)
		k.Cancel()
		k.Wait()
		if s := k.Status(); s.Status != structs.CheckFailing || !strings.Contains(s.Output, "no end within 2s") {
			t.Errorf("after the timeout: %+v", s)
		}
	})
}

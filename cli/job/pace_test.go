package job

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/cli/command"
	"berth/structs"
)

// pace returns the pace of the options, with the answers of a user.
func pace(t *testing.T, answers string, options ...string) (*restartPace, *strings.Builder) {
	t.Helper()
	var asked strings.Builder
	c := &command.Call{
		Stdio:   command.Stdio{In: strings.NewReader(answers), Out: &asked, Err: &asked},
		Command: &jobRestartCommand,
	}
	if err := c.Parse(append(options, "web")); err != nil {
		t.Fatal(err)
	}
	p, err := paceOf(c)
	if err != nil {
		t.Fatal(err)
	}
	return p, &asked
}

func TestRestartPace_AsksBetweenBatches(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		answers string
		faults  int
		want    bool
		asked   int
		wait    time.Duration
	}{
		"no questions":                {"-batch-wait 1ms", "n\n", 1, true, 0, time.Millisecond},
		"yes":                         {"-batch-wait ask", "y\n", 0, true, 1, 0},
		"no":                          {"-batch-wait ask", "n\n", 0, false, 1, 0},
		"another word, and then yes":  {"-batch-wait ask", "what\ny\n", 0, true, 2, 0},
		"a time":                      {"-batch-wait ask", "2ms\n", 0, true, 1, 2 * time.Millisecond},
		"no answer":                   {"-batch-wait ask", "", 0, false, 1, 0},
		"-yes":                        {"-batch-wait ask -yes", "n\n", 0, true, 0, 0},
		"after a fault, no":           {"-on-error ask", "n\n", 1, false, 1, 0},
		"after a fault, yes":          {"-on-error ask", "y\n", 1, true, 1, 0},
		"without a fault":             {"-on-error ask", "n\n", 0, true, 0, 0},
		"after a fault, continue":     {"-on-error continue", "n\n", 1, true, 0, 0},
		"after a fault, ask and -yes": {"-on-error ask -yes", "n\n", 1, true, 0, 0},
	} {
		p, asked := pace(t, c.answers, strings.Fields(c.options)...)
		goOn, err := p.beforeNext(t.Context(), c.faults)
		questions := strings.Count(asked.String(), "next batch?")
		told := strings.Contains(asked.String(), "Next batch in "+p.wait.String()+"\n")
		if err != nil || goOn != c.want || questions != c.asked || p.wait != c.wait || told != (p.wait > 0) {
			t.Errorf("%s: it goes on: %t, waits %s, %v; it asked %q", name, goOn, p.wait, err, asked)
		}
	}
}

// After a time as the answer the command asks no more.
func TestRestartPace_AsksOnceForATime(t *testing.T) {
	p, asked := pace(t, "1ms\nn\n", "-batch-wait", "ask")
	for range 3 {
		if goOn, err := p.beforeNext(t.Context(), 0); !goOn || err != nil {
			t.Errorf("it goes on: %t, %v", goOn, err)
		}
	}
	if strings.Count(asked.String(), "next batch?") != 1 {
		t.Errorf("it asked %q", asked)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	goOn, err := p.beforeNext(ended, 0)
	const want = "interrupted; no further batch is restarted; to see the state of the job: berth job why web"
	if goOn || !structs.IsKind(err, structs.KindTimeout) || err.Error() != want {
		t.Errorf("after its end it goes on: %t, %v", goOn, err)
	}
}

package loadshed

import (
	"slices"
	"testing"
	"time"
)

// model is a server with one worker. It reads requests in the order of their arrival, decides then whether to
// admit one, and needs some time even to reject one.
type model struct {
	serve, reject time.Duration // the time of an admitted read, and of a rejected one

	control   control
	share     float64
	remainder float64
	now       time.Duration // of the server
	admitted  int
	seen      int
	window    time.Duration // when it began
	least     time.Duration // delay of the window

	waited, rejected []time.Duration // until the answer or the rejection
}

func newModel() *model {
	return &model{
		serve:  50 * time.Microsecond,
		reject: 8 * time.Microsecond,
		least:  -1,
	}
}

// offer offers a number of reads in a second, and returns how many a second were answered.
func (m *model) offer(rate float64, during time.Duration) (answered float64) {
	m.waited = nil
	m.rejected = nil
	begin := m.now
	for n := 0; ; n++ {
		due := begin + time.Duration(float64(n)/rate*float64(time.Second))
		if due > begin+during {
			return float64(len(m.waited)) / (m.now - begin).Seconds()
		}
		for m.now < due { // idle
			m.now = min(due, m.window+gateWindow)
			m.recordDelay(0)
		}
		m.handleRead(due)
	}
}

func (m *model) handleRead(due time.Duration) {
	m.recordDelay(m.now - due)
	m.seen++
	m.remainder += m.share
	if m.remainder >= 1 && m.seen > MinAdmit {
		m.remainder--
		m.now += m.reject
		m.rejected = append(m.rejected, m.now-due)
		return
	}
	m.admitted++
	m.now += m.serve
	m.waited = append(m.waited, m.now-due)
}

// recordDelay records a delay and decides at the end of the window.
func (m *model) recordDelay(delay time.Duration) {
	if m.least < 0 || delay < m.least {
		m.least = delay
	}
	took := m.now - m.window
	if took < gateWindow {
		return
	}
	m.share = m.control.step(MinAdmit, Sample{
		Took:     took,
		Seen:     m.seen,
		Admitted: m.admitted,
		Delay:    m.least,
	})
	m.seen = 0
	m.admitted = 0
	m.window = m.now
	m.least = -1
}

func p99(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[len(d)*99/100]
}

func TestControl_RejectsBeyondTheSustainedRate(t *testing.T) {
	const sustained = 20_000 * .95
	for name, c := range map[string]struct {
		load, answered float64 // the offered load, and the least answered load, relative to the sustained one
		p99            time.Duration
	}{
		"the sustained load": {1, .99, 30 * time.Millisecond},
		"slightly more":      {1.15, .85, 250 * time.Millisecond},
		"twice as much":      {2, .75, 350 * time.Millisecond},
		"four times as much": {4, .4, 800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			answered := m.offer(c.load*sustained, 8*time.Second) / sustained
			t.Logf("%.0f%% are answered, p99 %s; %d are rejected, p99 %s",
				100*answered, p99(m.waited), len(m.rejected), p99(m.rejected))
			if answered < c.answered || p99(m.waited) > c.p99 {
				t.Errorf("%.2f of the sustained load is answered, p99 %s; want %.2f and %s",
					answered, p99(m.waited), c.answered, c.p99)
			}
			if c.load == 1 && len(m.rejected) > 0 {
				t.Errorf("%d reads of the sustained load are rejected, want none", len(m.rejected))
			}
			// The model recovers as soon as the load falls.
			m.offer(sustained/2, 2*gateWindow)
			m.offer(sustained/2, time.Second)
			if len(m.rejected) > len(m.waited)/20 || p99(m.waited) > time.Millisecond {
				t.Errorf("of half the sustained load %d reads are rejected, p99 %s", len(m.rejected), p99(m.waited))
			}
		})
	}
}

func TestControl_Step(t *testing.T) {
	late := gateDelay + time.Millisecond
	soon := gateDelay / 2
	sample := func(seen, admitted int, delay time.Duration) Sample {
		return Sample{Took: gateWindow, Seen: seen, Admitted: admitted, Delay: delay}
	}
	few := func(delay time.Duration) Sample { return sample(MinAdmit, MinAdmit, delay) }
	many := func(delay time.Duration) Sample { return sample(1000, 1000, delay) }
	for name, run := range map[string]struct {
		windows []Sample
		rejects bool // after the last of them
	}{
		"in time":                  {[]Sample{many(0), many(soon)}, false},
		"late once":                {[]Sample{many(late)}, false},
		"late twice, not in a row": {[]Sample{many(late), many(soon), many(late)}, false},
		"late twice in a row":      {[]Sample{many(late), many(late)}, true},
		"late with few reads":      {[]Sample{few(late), few(2 * late), few(time.Hour)}, false},
		"late with few, then many": {[]Sample{
			sample(1, 1, late),
			sample(1, 1, late),
			sample(2000, 2000, late),
		}, true},
		"the load falls":              {[]Sample{many(late), many(late), sample(300, 300, soon)}, false},
		"the load continues, in time": {[]Sample{many(late), many(late), sample(2000, 850, soon)}, true},
		"windows of no time": {[]Sample{
			{Seen: 1000, Admitted: 1000, Delay: late},
			{Seen: 1000, Admitted: 1000, Delay: late},
		}, false},
		"late without admitted reads": {[]Sample{
			sample(1000, 0, late),
			sample(1000, 0, late),
			few(late),
		}, false},
		"late because of other programs": {[]Sample{
			sample(3, 3, time.Second),
			sample(0, 0, time.Second),
			sample(5, 5, time.Second),
		}, false},
	} {
		var ctl control
		var share float64
		for _, s := range run.windows {
			share = ctl.step(MinAdmit, s)
			if share < 0 || share > 1 {
				t.Errorf("%s: got share %f, want 0 to 1", name, share)
			}
		}
		if share > 0 != run.rejects {
			t.Errorf("%s: a share of %f is rejected, want a rejection: %v", name, share, run.rejects)
		}
	}
}

// TestControl_AlwaysAdmitsAPart: bytes take long in spite of all rejections, and a part is still admitted.
func TestControl_AlwaysAdmitsAPart(t *testing.T) {
	var ctl control
	share := 0.0
	for range 1000 {
		share = ctl.step(MinAdmit, Sample{
			Took:     gateWindow,
			Seen:     1000,
			Admitted: int(1000 * (1 - share)),
			Delay:    time.Second,
		})
	}
	if share > 1-leastPart+.001 {
		t.Errorf("a share of %f is rejected, want at most %f", share, 1-leastPart)
	}
}

func TestControl_DropsItsLimit(t *testing.T) {
	var ctl control
	for range 3 {
		ctl.step(MinAdmit, Sample{Took: gateWindow, Seen: 1000, Admitted: 1000, Delay: time.Second})
	}
	for range enough {
		ctl.step(MinAdmit, Sample{Took: gateWindow, Seen: 10, Admitted: 10})
	}
	if ctl.limit != 0 {
		t.Errorf("the limit is %f reads a second, want none", ctl.limit)
	}
}

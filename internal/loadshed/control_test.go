package loadshed

import (
	"slices"
	"testing"
	"time"
)

// model is a server that does one thing after another: it reads requests in the order of their arrival,
// decides only then whether one is admitted, and needs some time even to reject one.
type model struct {
	serve, spurn time.Duration // the time of an admitted read, and of a rejected one

	control control
	share   float64
	carry   float64
	now     time.Duration // of the server
	in      int
	seen    int
	window  time.Duration // when it began
	least   time.Duration // delay of the window

	waited, refusedAfter []time.Duration
}

func newModel() *model {
	return &model{serve: 50 * time.Microsecond, spurn: 8 * time.Microsecond, least: -1}
}

// offer offers a number of reads in a second, and returns how many a second were answered.
func (m *model) offer(rate float64, during time.Duration) (good float64) {
	m.waited, m.refusedAfter = nil, nil
	begin := m.now
	for n := 0; ; n++ {
		due := begin + time.Duration(float64(n)/rate*float64(time.Second))
		if due > begin+during {
			return float64(len(m.waited)) / (m.now - begin).Seconds()
		}
		for m.now < due { // idle
			m.now = min(due, m.window+gateWindow)
			m.turn(0)
		}
		m.one(due)
	}
}

func (m *model) one(due time.Duration) {
	m.turn(m.now - due)
	m.seen++
	if m.carry += m.share; m.carry >= 1 && m.seen > MinAdmit {
		m.carry--
		m.now += m.spurn
		m.refusedAfter = append(m.refusedAfter, m.now-due)
		return
	}
	m.in++
	m.now += m.serve
	m.waited = append(m.waited, m.now-due)
}

// turn records a delay and decides at the end of the window.
func (m *model) turn(delay time.Duration) {
	if m.least < 0 || delay < m.least {
		m.least = delay
	}
	if took := m.now - m.window; took >= gateWindow {
		m.share = m.control.step(MinAdmit, Sample{Took: took, Seen: m.seen, Admitted: m.in, Delay: m.least})
		m.seen, m.in, m.window, m.least = 0, 0, m.now, -1
	}
}

func p99(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[len(d)*99/100]
}

func TestControl_RefusesBeyondTheSustainedRate(t *testing.T) {
	const sustained = 20_000 * .95
	for name, c := range map[string]struct {
		times, good float64 // the offered load, and the least answered load, relative to the sustained one
		p99         time.Duration
	}{
		"what is sustained": {1, .99, 30 * time.Millisecond},
		"a little more":     {1.15, .85, 250 * time.Millisecond},
		"twice":             {2, .75, 350 * time.Millisecond},
		"four times":        {4, .4, 800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			good := m.offer(c.times*sustained, 8*time.Second)
			t.Logf("%.0f%% are answered, p99 %s; %d refused, p99 %s", 100*good/sustained, p99(m.waited),
				len(m.refusedAfter), p99(m.refusedAfter))
			if good < c.good*sustained || p99(m.waited) > c.p99 {
				t.Errorf("%.2f of what is sustained is answered, p99 %s; want %.2f and %s", good/sustained, p99(m.waited),
					c.good, c.p99)
			}
			if c.times == 1 && len(m.refusedAfter) > 0 {
				t.Errorf("%d are refused of what is sustained", len(m.refusedAfter))
			}
			// And as soon as it is over, all is well.
			m.offer(sustained/2, 2*gateWindow)
			m.offer(sustained/2, time.Second)
			if len(m.refusedAfter) > len(m.waited)/20 || p99(m.waited) > time.Millisecond {
				t.Errorf("half of it, afterwards: %d are refused, p99 %s", len(m.refusedAfter), p99(m.waited))
			}
		})
	}
}

func TestControl_Step(t *testing.T) {
	late, soon := gateDelay+time.Millisecond, gateDelay/2
	sample := func(seen, in int, delay time.Duration) Sample {
		return Sample{Took: gateWindow, Seen: seen, Admitted: in, Delay: delay}
	}
	for name, run := range map[string]struct {
		windows []Sample
		refused bool // after the last of them
	}{
		"all is well": {[]Sample{sample(1000, 1000, 0), sample(1000, 1000, soon)}, false},
		"late once":   {[]Sample{sample(1000, 1000, late)}, false},
		"late, with a breath between": {[]Sample{sample(1000, 1000, late), sample(1000, 1000, soon),
			sample(1000, 1000, late)}, false},
		"late and late again": {[]Sample{sample(1000, 1000, late), sample(1000, 1000, late)}, true},
		"late, but not for few reads": {[]Sample{sample(MinAdmit, MinAdmit, late),
			sample(MinAdmit, MinAdmit, 2*late), sample(MinAdmit, MinAdmit, time.Hour)}, false},
		"late for few, and then more": {[]Sample{sample(1, 1, late), sample(1, 1, late),
			sample(2000, 2000, late)}, true},
		"the flood is over": {[]Sample{sample(1000, 1000, late), sample(1000, 1000, late),
			sample(300, 300, soon)}, false},
		"the flood goes on in time": {[]Sample{sample(1000, 1000, late), sample(1000, 1000, late),
			sample(2000, 850, soon)}, true},
		"a window of no time": {[]Sample{{Seen: 1000, Admitted: 1000, Delay: late},
			{Seen: 1000, Admitted: 1000, Delay: late}}, false},
		"late with nothing that is in": {[]Sample{sample(1000, 0, late), sample(1000, 0, late),
			sample(MinAdmit, MinAdmit, late)}, false},
		"a machine that others work on": {[]Sample{sample(3, 3, time.Second), sample(0, 0, time.Second),
			sample(5, 5, time.Second)}, false},
	} {
		var ctl control
		var share float64
		for _, s := range run.windows {
			share = ctl.step(MinAdmit, s)
			if share < 0 || share > 1 {
				t.Errorf("%s: a share of %f", name, share)
			}
		}
		if share > 0 != run.refused {
			t.Errorf("%s: a share of %f is refused", name, share)
		}
	}
}

// TestControl_AlwaysAdmitsAPart: if bytes take long in spite of all rejections, a part is still
// admitted.
func TestControl_AlwaysAdmitsAPart(t *testing.T) {
	var ctl control
	share := 0.0
	for range 1000 {
		share = ctl.step(MinAdmit, Sample{Took: gateWindow, Seen: 1000, Admitted: int(1000 * (1 - share)),
			Delay: time.Second})
	}
	if share > 1-leastPart+.001 {
		t.Errorf("a share of %f is refused", share)
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
		t.Errorf("a limit of %f reads a second", ctl.limit)
	}
}

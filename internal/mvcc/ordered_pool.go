package mvcc

// OrderedPool applies a function to values in parallel and hands the results over in the order of the values.
// It belongs to one goroutine, its owner, which calls End: that waits for all goroutines.
type OrderedPool[In, Out any] struct {
	Do      func(In) (Out, error) // in a separate goroutine
	HandOut func(Out) error       // in the goroutine of the owner

	queue []chan poolOutcome[Out] // oldest first
	err   error
}

type poolOutcome[Out any] struct {
	out Out
	err error
}

// inParallel is the largest number of values in progress.
const inParallel = 4

// Start starts work on a value. If inParallel values are in progress, it waits for the oldest result. It
// returns false after the first failure: then the owner need not pass more values.
func (p *OrderedPool[In, Out]) Start(in In) bool {
	if len(p.queue) == inParallel {
		p.handOutOldest()
	}
	if p.err != nil {
		return false
	}
	done := make(chan poolOutcome[Out], 1)
	p.queue = append(p.queue, done)
	go func() {
		out, err := p.Do(in)
		done <- poolOutcome[Out]{out, err}
	}()
	return true
}

func (p *OrderedPool[In, Out]) handOutOldest() {
	r := <-p.queue[0]
	p.queue = p.queue[1:]
	if p.err != nil {
		return
	}
	p.err = r.err
	if p.err == nil {
		p.err = p.HandOut(r.out)
	}
}

// End hands out the remaining results and returns the first failure.
func (p *OrderedPool[In, Out]) End() error {
	for len(p.queue) > 0 {
		p.handOutOldest()
	}
	return p.err
}

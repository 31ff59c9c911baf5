package state

// inOrder does something with values side by side, and takes the results in the order in which the values
// were added. Its owner calls end, which waits for what is under way.
type inOrder[In, Out any] struct {
	do    func(In) (Out, error) // in a goroutine of its own
	take  func(Out) error       // in the owner's
	queue []chan outcome[Out]   // oldest first
	err   error
}

type outcome[Out any] struct {
	out Out
	err error
}

// add begins with a value, and takes the oldest result when enough is under way. It reports false after the
// first failure: no more is wanted.
func (o *inOrder[In, Out]) add(in In) bool {
	if len(o.queue) == aside {
		o.takeOldest()
	}
	if o.err != nil {
		return false
	}
	done := make(chan outcome[Out], 1)
	o.queue = append(o.queue, done)
	go func() {
		out, err := o.do(in)
		done <- outcome[Out]{out, err}
	}()
	return true
}

func (o *inOrder[In, Out]) takeOldest() {
	r := <-o.queue[0]
	o.queue = o.queue[1:]
	if o.err != nil {
		return
	}
	if o.err = r.err; r.err == nil {
		o.err = o.take(r.out)
	}
}

// end takes what is left and returns the first failure.
func (o *inOrder[In, Out]) end() error {
	for len(o.queue) > 0 {
		o.takeOldest()
	}
	return o.err
}

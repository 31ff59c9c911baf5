// Package workqueue runs the steps that rows of the state ask for. A leader loop says what a row asks for;
// the queue decides which step is taken next.
//
// Its rules:
//
//   - It keeps keys, never rows. Each step is decided again on the newest rows just before it is taken.
//   - It looks at a key when its row changes, when its step ends, when it comes due and when it gets a signal
//     that it awaits. Nothing costs more because more is waiting.
//   - In a group a bounded number of steps is in work, of one serial at most one.
//   - A step that fails, or that changes nothing, is taken again after a delay that grows.
//   - It knows no truth: a new leader begins with an empty queue and finds the work in the rows.
package workqueue

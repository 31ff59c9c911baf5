// Package workqueue runs the steps that rows of the state need. A leader loop decides which step a row needs,
// and the queue decides which step is next.
//
// Its rules:
//
//   - It keeps keys, never rows. Each step is decided again on the newest rows just before it is taken.
//   - It reads the rows of a key when they change, when its step ends, when it comes due and when it gets a
//     signal that it awaits. No cost grows with the number of waiting keys.
//   - In a group a bounded number of steps is in work, of one serial at most one.
//   - A step that fails, or that changes nothing, is taken again after a growing delay.
//   - It has no state that must survive: a new leader begins with an empty queue and finds the work in the
//     rows.
package workqueue

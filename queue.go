package sendonce

// queue has the jobs that wait for a sender. Its memory is used again and again.
type queue[T any] struct {
	jobs []job[T]
	head int // those before it were taken
}

func (q *queue[T]) len() int { return len(q.jobs) - q.head }

func (q *queue[T]) at(i int) *job[T] { return &q.jobs[q.head+i] }

// add puts a job at the end.
func (q *queue[T]) add(j job[T]) {
	if len(q.jobs) == cap(q.jobs) && q.head > 0 { // to the front of the array
		n := copy(q.jobs, q.jobs[q.head:])
		clear(q.jobs[n:])
		q.jobs, q.head = q.jobs[:n], 0
	}
	q.jobs = append(q.jobs, j)
}

// putFirst puts a job, which was taken before, in front of all others.
func (q *queue[T]) putFirst(j job[T]) {
	if q.head == 0 {
		q.jobs = append(q.jobs, job[T]{})
		copy(q.jobs[1:], q.jobs)
	} else {
		q.head--
	}
	q.jobs[q.head] = j
}

// take removes a job.
func (q *queue[T]) take(i int) job[T] {
	j := *q.at(i)
	copy(q.jobs[q.head+1:], q.jobs[q.head:q.head+i])
	q.jobs[q.head] = job[T]{}
	q.head++
	if q.head == len(q.jobs) {
		q.jobs, q.head = q.jobs[:0], 0
	}
	return j
}

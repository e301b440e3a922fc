package finding

// Distance is how many letters have to be changed, added or left out to make one name of the other (Levenshtein), for
// suggestions of what could have been meant.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, changed)
		}
	}
	return row[len(b)]
}

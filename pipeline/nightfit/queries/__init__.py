"""Everything that has a sensitivity, and nothing else. Imports problem, records, numerics and types.

An auditor reads this package and `nightfit.privacy`. The proof of each query's sensitivity is the `Guarantee:` paragraph of its class; the
last column names the tests that fail if it is false. A query is handed blocks of rows and public numbers. It sees neither budget, cluster
nor method, adds no noise and is asked only through the gate.

Sums, to which the gate adds Gaussian noise (`sensitivity`: l2 distance in whole steps):

| query | in | what it is | broken by |
|---|---|---|---|
| `GradientSum` | gradient_sums | sum of bounded gradients, or of the two middle group sums | test_a_neighbour_moves_the_sum_by_at_most_the_sensitivity, test_a_person_moves_the_sum_by_at_most_the_sensitivity, test_a_neighbour_moves_a_query_of_scaled_rows_by_at_most_its_sensitivity |
| `ShrunkenSum` | gradient_sums | the same with clipped targets | test_a_neighbour_moves_a_sum_with_clipped_targets_by_at_most_the_sensitivity |
| `ChosenColumns` | column_subset | some coordinates of a sum of bounded gradients | test_a_neighbour_moves_chosen_columns_by_at_most_the_sensitivity |
| `ColumnSubset` | column_subset | any sum on narrower records | test_a_query_of_some_columns_is_the_query_of_a_narrower_record |
| `InsideMean` | inside_means | mean of the gradients inside a public ball | test_a_neighbour_moves_the_inside_mean_by_at_most_the_sensitivity |
| `Counts` | histograms | base of histograms: non-negative counts | test_the_counts_reach_their_sensitivity |
| `BucketCounts` | histograms | counts of gradient coordinates in linear buckets | test_a_neighbour_moves_the_counts_by_at_most_the_sensitivity |
| `Histogram` | histograms | counts of magnitudes (columns, norms, residuals) on a logarithmic grid | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `OuterProducts` | second_moments | base of second moments of clipped vectors | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `SecondMoment` | second_moments | second moment of scaled or whitened rows | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `WhitenedGradient` | whitened_gradients | gradient of clipped residuals in whitened coordinates | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `GradientAndMoment` | whitened_gradients | that gradient, or those of several classes, together with the second moment of whitened rows | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `MeanResidual` | whitened_gradients | mean of clipped residuals | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `MeanClassResidual` | class_residuals | the same of several classes, bounded together | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `Calibration` | calibration | second moment of level, prediction, residual and what farther clamps add | test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity, test_a_person_moves_an_auto_query_by_at_most_its_sensitivity |
| `LossSum` | loss_sums | bounded loss of a fitted model | test_a_neighbour_moves_a_score_by_at_most_its_sensitivity, test_a_person_moves_a_score_by_at_most_its_sensitivity |
| `WeightedCounts` | weighted_counts | base of histograms of predictions and checks, by group if wanted | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |
| `ErrorHistogram` | evaluations | errors of released predictions, on logarithmic nodes | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |
| `ScoreHistogram` | evaluations | released scores by outcome | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |
| `ClassBins` | class_scores | base of the next two | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity |
| `ClassScores` | class_scores | released one-versus-rest scores by outcome, true by predicted class | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |
| `ClassPredictions` | class_scores | released one-versus-rest scores | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |
| `PredictionBins` | prediction_bins | released predictions, and clipped targets, in equal steps | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |
| `CheckCounts` | checks | missing values, unknown levels and values at their bounds | test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity, test_a_person_moves_an_evaluation_by_at_most_its_sensitivity |

Selections, of which the gate releases indices (`score_sensitivity`: change of one score in whole steps):

| query | in | what it is | broken by |
|---|---|---|---|
| `Magnitudes` | gradient_sums | magnitude of each weight after a step | test_a_neighbour_moves_no_score_by_more_than_the_reach |
| `Vertices` | gradient_sums | fall of the loss towards each vertex of the l1 ball | test_a_neighbour_moves_no_score_by_more_than_the_reach |

Counts whose coordinates are secret, of which the gate releases names above a threshold (`sensitivity`: l2 distance in whole steps):

| query | in | what it is | broken by |
|---|---|---|---|
| `LevelCounts` | level_counts | units of each level of a column | test_a_neighbour_moves_the_counts_of_levels_by_at_most_the_sensitivity, test_a_level_of_one_unit_alone_is_told_no_more_often_than_stated |

Numbers with a smooth bound (`smoothness`), to which the gate adds noise that follows the data:

| query | in | what it is | broken by |
|---|---|---|---|
| `TrimmedGradients` | trimmed_gradients | trimmed mean of each gradient coordinate | test_the_bound_of_a_trimmed_mean_is_smooth_and_holds |
| `BlockMinimisers` | block_minimisers | centre of the minimisers of hashed blocks | test_the_bound_of_the_aggregate_is_smooth_and_holds |

Of one part of the data set, or of one of several models:

| query | in | what it is | broken by |
|---|---|---|---|
| `OfPart` | parts | any query, of the units of one part | test_units_outside_of_the_part_change_nothing, test_a_unit_that_changes_its_part_moves_both_queries_like_one_that_comes_or_goes |
| `GroupedOfPart` | parts | the same for queries on groups of records | test_units_outside_of_the_part_change_nothing |
| `OneTarget` | one_target | any query, of rows that several models share, as one model sees them | test_rows_decoded_once_are_those_of_each_model, test_a_missing_target_changes_nothing_that_is_shared |
| `GroupedOneTarget` | one_target | the same for queries on groups of records | test_groups_of_one_model_s_rows_are_whole |
| `Around` | around | base of these: the query inside, as it is | test_units_outside_of_the_part_change_nothing |
| `AroundGroups` | around | base of those on groups of records | test_groups_of_one_model_s_rows_are_whole |

Beside the queries: `base` (protocols and rounding), `jointly` (queries of several models in one reading), `rows` (rows as whole numbers),
`kernels` (the fused pass over a block), `whole_gradients` (the same of rows as whole numbers) and `boundings` (how one unit's gradient is bounded, one file each).
"""  # noqa: E501
